"""The reader believes only what it has checked, and removes only what is dead."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nccl_shim.segment import layout, liveness, segment_file
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.layout import Header, Iteration, Kind, Record, Source
from nccl_shim.segment.python_writer import PythonWriter
from nccl_shim.segment.reader import DISTRUST_NS, Reader
from nccl_shim.segment.reading_time import AHEAD_NS, PART, ReadingTime

COUNT_AND_WAIT = """
import sys
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.writer import process_writer
w = process_writer()
w.enqueue(w.find(Kind.PUSH, Source.PS, 0, 0, 2, 1), 5, 5)
print("ready", flush=True)
sys.stdin.read()
"""


def patch(file: Path, field: str, value: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(getattr(Header, field).offset)
        opened.write(value)


@pytest.fixture
def file(shm_dir: Path) -> Path:
    """A sound file of this very process."""
    PythonWriter(Identity("j", shm_dir))
    [path] = shm_dir.iterdir()
    return path


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("magic", bytes(8), "magic"),
        ("version", (2).to_bytes(4, "little"), "layout version 2"),
        ("record_bytes", (64).to_bytes(4, "little"), "sizes"),
        ("job", bytes(64), "printable name"),
        ("job", b" \0", "printable name"),
        ("job", b"a\nb\0", "printable name"),
        ("job", b"\x1b[2J\0", "printable name"),
    ],
)
def test_a_wrong_header_is_refused(file: Path, field: str, value: bytes, why: str) -> None:
    patch(file, field, value)
    with Reader(file.parent) as reader:
        assert reader.poll() == []
        assert why in reader.refused[file.name]


def test_a_file_open_to_others_is_refused(file: Path) -> None:
    file.chmod(0o644)
    with Reader(file.parent) as reader:
        assert reader.poll() == []
        assert "lets other users in" in reader.refused[file.name]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_user_cannot_speak_for_anothers_process(file: Path) -> None:
    os.chown(file, 65534, 65534)
    patch(file, "uid", (65534).to_bytes(4, "little"))
    with Reader(file.parent) as reader:
        assert reader.poll() == []
        assert "belongs to uid 0" in reader.refused[file.name]


def test_links_fifos_and_fragments_are_refused(shm_dir: Path, tmp_path: Path) -> None:
    PythonWriter(Identity("j", tmp_path / "elsewhere"))
    [sound] = (tmp_path / "elsewhere").iterdir()
    (shm_dir / "link.pls").symlink_to(sound)
    os.mkfifo(shm_dir / "fifo.pls", 0o600)
    (shm_dir / "short.pls").touch(0o600)
    (shm_dir / "other").touch()
    with Reader(shm_dir) as reader:
        assert reader.poll() == []
        assert set(reader.refused) == {"link.pls", "fifo.pls", "short.pls"}


def test_a_file_cut_under_the_reader_is_dropped_not_fatal(file: Path) -> None:
    with Reader(file.parent) as reader:
        assert len(reader.poll()) == 1
        os.truncate(file, 100)
        assert reader.poll() == []
        assert "shorter" in reader.refused[file.name]


def test_whose_a_file_is_the_kernel_says(file: Path) -> None:
    """In a user namespace, as in a rootless container, a process knows itself by another number."""
    patch(file, "uid", (12345).to_bytes(4, "little"))
    with Reader(file.parent) as reader:
        [view] = reader.poll()
        assert (view.uid, view.snapshot.uid) == (os.geteuid(), 12345)


def test_one_user_cannot_have_us_follow_any_number_of_files(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccl_shim.segment.reader.MOST_FILES", 3)
    for number in range(5):
        file.with_stem(f"{file.stem}{number}").write_bytes(file.read_bytes())
        file.with_stem(f"{file.stem}{number}").chmod(0o600)
    with Reader(file.parent) as reader:
        assert len(reader.poll()) == 3 == len(reader.refused)
        assert all("more than 3 files" in why for why in reader.refused.values())


FOREIGN = (1).to_bytes(8, "little")  # no pid namespace has this number


@pytest.mark.parametrize("job", [b"/\0", b"j\0"])
def test_a_writer_is_searched_for_once_and_not_for_a_wrong_name(
    file: Path, monkeypatch: pytest.MonkeyPatch, job: bytes
) -> None:
    """All processes of the host are looked at for it: a file that is refused each time had that done at every look."""
    searches: list[int] = []
    monkeypatch.setattr(segment_file, "host_pid", lambda pid, *_: searches.append(pid) or pid)
    monkeypatch.setattr(segment_file, "owner_of", lambda _: 65534)
    patch(file, "job", job)
    patch(file, "pid_namespace", FOREIGN)
    with Reader(file.parent) as reader:
        for _ in range(3):
            assert reader.poll() == [] and file.name in reader.refused
        assert len(searches) == (job == b"j\0")
        file.chmod(0o400)  # it is another than it was
        assert reader.poll() == [] and len(searches) == 2 * (job == b"j\0")


def test_files_that_are_opened_take_no_longer_than_a_poll_may(file: Path) -> None:
    for number in range(5):
        file.with_stem(f"{file.stem}{number}").write_bytes(file.read_bytes())
        file.with_stem(f"{file.stem}{number}").chmod(0o600)
    with Reader(file.parent, budget_s=0.0) as reader:
        assert [len(reader.poll()) for _ in range(7)] == [1, 2, 3, 4, 5, 6, 6]


def full(file: Path, count: int) -> list[Path]:
    """Copies with as many records as there can be, each of which is read."""
    record = bytearray(bytes(file.read_bytes())[layout.HEADER_BYTES :][: layout.RECORD_BYTES])
    record[Record.state.offset : Record.state.offset + 4] = (layout.PUBLISHED).to_bytes(4, "little")
    record[Record.kind.offset : Record.kind.offset + 4] = int(Kind.COLLECTIVE).to_bytes(4, "little")
    raw = file.read_bytes()[: layout.HEADER_BYTES] + bytes(record) * layout.RECORD_COUNT
    copies = [file.with_stem(f"{file.stem}{number}") for number in range(count)]
    for copy in copies:
        copy.write_bytes(raw)
        copy.chmod(0o600)
        patch(copy, "records_claimed", layout.RECORD_COUNT.to_bytes(4, "little"))
    return copies


def test_one_user_has_as_many_records_as_a_host_needs_and_no_more(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that is read takes memory: 512 full ones took a quarter of a gigabyte."""
    monkeypatch.setattr("nccl_shim.segment.reader.MOST_RECORDS", 3 * layout.RECORD_COUNT)
    copies = full(file, 5)
    with Reader(file.parent) as reader:
        for _ in range(3):
            assert sum(len(view.snapshot.flows) for view in reader.poll()) <= 3 * layout.RECORD_COUNT
            assert any("have left" in why for why in reader.refused.values())
        for copy in copies[1:]:
            copy.unlink()
        reader.poll()
        assert len(reader.poll()) == 2 and not reader.refused


def test_segments_with_something_new_at_every_look_take_a_small_part_of_a_core(file: Path) -> None:
    copies, looks, every_s = full(file, 8), 200, 0.005
    with Reader(file.parent) as reader:
        reader.poll()
        began_ns, took_ns, seen = time.monotonic_ns(), 0, 0
        for number in range(looks):
            for copy in copies:
                patch(copy, "heartbeat_ns", (number + 1).to_bytes(8, "little"))
            before_ns = time.thread_time_ns()
            seen += len(reader.poll_changed({os.getpid()}))
            took_ns += time.thread_time_ns() - before_ns
            time.sleep(every_s)
        passed_ns = time.monotonic_ns() - began_ns
    assert 0 < seen < looks * len(copies) / 2
    assert took_ns < 2 * PART * (passed_ns + AHEAD_NS), "what comes with each reading is not counted"


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), max_size=100))
def test_a_user_reads_no_more_than_its_part(steps: list[tuple[int, int]]) -> None:
    """Each reading comes some time after the last, and takes some; the last one may be long."""
    allowed, now_ns, took_ns = ReadingTime(), 0, 0
    for passed_ns, reading_ns in steps:
        now_ns += passed_ns
        if allowed.is_left(1, now_ns):
            allowed.spent(1, reading_ns, now_ns)
            took_ns += reading_ns
        assert allowed.is_left(2, now_ns), "another user has its own"
    assert took_ns <= PART * (now_ns + AHEAD_NS) + 10**7


def test_what_is_known_outlasts_a_directory_that_cannot_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptors(_path: object) -> object:
        raise OSError(errno.EMFILE, "too many open files")

    with Reader(file.parent) as reader:
        assert len(reader.poll()) == 1
        monkeypatch.setattr("nccl_shim.segment.reader.os.scandir", no_descriptors)
        assert len(reader.poll()) == 1


def test_a_hostile_record_count_reads_no_further_than_the_file(file: Path) -> None:
    with Reader(file.parent) as reader:
        reader.poll()
        patch(file, "records_claimed", b"\xff\xff\xff\xff")
        assert len(reader.poll()[0].snapshot.flows) <= layout.RECORD_COUNT


def iteration_counter(**words: int) -> bytes:
    """As a writer would have stored it."""
    stored = Iteration(**words)
    stored.check = layout.check_word(tuple(getattr(stored, name) for name, _ in Iteration._fields_[:-1]))
    return bytes(stored)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("job", b"another\0", "is of another"),
        ("iteration", iteration_counter(seq=2, iteration=2**64 - 1), "more than there can be"),
        ("iteration", iteration_counter(seq=2, iteration=10**12), "iterations"),
        ("iteration", iteration_counter(seq=2, iteration=3, last_duration_ns=2**63), "more than there can be"),
    ],
)
def test_nonsense_written_later_is_refused_too(file: Path, field: str, value: bytes, why: str) -> None:
    with Reader(file.parent) as reader:
        assert len(reader.poll()) == 1
        patch(file, field, value)
        patch(file, "heartbeat_ns", bytes(8))
        assert reader.poll_changed({os.getpid()}) == []
        assert why in reader.refused[file.name]


def test_after_bad_numbers_a_process_is_believed_again(file: Path) -> None:
    sound = file.read_bytes()[Header.iteration.offset :][: len(iteration_counter(seq=2))]
    with Reader(file.parent) as reader:
        assert len(reader.poll(now_ns=0)) == 1
        patch(file, "iteration", iteration_counter(seq=2, iteration=10**12))
        assert reader.poll(now_ns=1) == []
        patch(file, "iteration", sound)
        assert reader.poll(now_ns=DISTRUST_NS) == [] and "iterations" in reader.refused[file.name]
        assert len(reader.poll(now_ns=1 + DISTRUST_NS)) == 1 and reader.refused == {}
        assert reader.bad_numbers == 2


def test_more_bytes_than_there_can_be_are_refused(shm_dir: Path) -> None:
    writer = PythonWriter(Identity("j", shm_dir))
    [file] = shm_dir.iterdir()
    record = writer.find(Kind.PUSH, Source.PS, 0, 0, 2, 1)
    with file.open("r+b") as opened:
        opened.seek(record + Record.enqueued_bytes.offset)
        opened.write(b"\xff" * 8)
    with Reader(shm_dir) as reader:
        assert reader.poll() == [] and "more than" in reader.refused[file.name]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, layout.HEADER_BYTES + 3 * layout.RECORD_BYTES), st.binary(max_size=80))))
def test_whatever_stands_in_a_file_is_believed_or_refused(file: Path, patches: list[tuple[int, bytes]]) -> None:
    broken = file.with_name("broken.pls")
    broken.write_bytes(file.read_bytes())
    broken.chmod(0o600)
    with Reader(file.parent) as reader:
        reader.poll()
        with broken.open("r+b") as opened:
            for offset, value in patches:
                opened.seek(offset)
                opened.write(value)
        views = reader.poll()
        assert len(views) + len(reader.refused) == 2
        assert all(view.snapshot.job == "j" for view in views)


def test_a_process_whose_name_is_cut_inside_a_character() -> None:
    name = Path("/proc/self/comm")
    before, ticks = name.read_bytes(), liveness.start_ticks(os.getpid())
    try:
        name.write_bytes("fourteen bytesé".encode()[:15])
        with pytest.raises(UnicodeDecodeError):
            name.read_text()
        assert liveness.start_ticks(os.getpid()) == ticks
    finally:
        name.write_bytes(before.rstrip(b"\n"))


def test_an_iteration_counter_torn_by_a_dead_writer_is_reported_as_unknown(file: Path) -> None:
    patch(file, "iteration", (1).to_bytes(8, "little"))
    with Reader(file.parent) as reader:
        [view] = reader.poll()
    assert view.snapshot.iteration_counter is None and view.learned is None


def test_an_iteration_counter_being_written_leaves_the_value_before_in_force(shm_dir: Path) -> None:
    writer = PythonWriter(Identity("j", shm_dir))
    [file] = shm_dir.iterdir()
    writer.enqueue(writer.find(Kind.PUSH, Source.PS, 0, 0, 2, 1), 500, 500)
    writer.end_iteration()
    with Reader(shm_dir) as reader:
        reader.poll()
        patch(file, "iteration", (3).to_bytes(8, "little"))
        [view] = reader.poll()
    assert view.snapshot.iteration_counter is None and view.iteration_enqueued_bytes == 0


def test_a_killed_writer_is_seen_dead_and_reaped(clean_env: dict, shm_dir: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", COUNT_AND_WAIT],
        env=clean_env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child, Reader(shm_dir) as reader:
        assert child.stdout.readline() == "ready\n"
        assert [view.alive for view in reader.poll()] == [True]
        assert reader.reap() == []
        child.send_signal(signal.SIGKILL)
        child.wait()
        [view] = reader.poll()
        assert (view.alive, view.snapshot.finished, view.snapshot.enqueued_bytes) == (False, False, 5)
        assert reader.reap() == [file_name(view)]
        assert list(shm_dir.iterdir()) == [] and reader.poll() == []


def file_name(view) -> str:
    return f"{view.snapshot.pid}-{view.snapshot.pid_start_ticks}-0.pls"


def test_a_reused_pid_does_not_keep_a_file(file: Path) -> None:
    patch(file, "pid_start_ticks", (1).to_bytes(8, "little"))
    with Reader(file.parent) as reader:
        assert [view.alive for view in reader.poll()] == [False]
        assert reader.reap() == [file.name]


def test_in_another_pid_namespace_the_lock_tells_life(shm_dir: Path) -> None:
    writer = PythonWriter(Identity("j", shm_dir))
    [file] = shm_dir.iterdir()
    patch(file, "pid_namespace", (99).to_bytes(8, "little"))
    with Reader(shm_dir) as reader:
        assert [(view.alive, view.host_pid) for view in reader.poll()] == [(True, None)]
        assert reader.reap() == []
        fcntl.flock(writer._file, fcntl.LOCK_UN)  # what the end of the writer does
        assert reader.reap() == [file.name]


def test_a_container_is_seen_and_named_from_outside(clean_env: dict, shm_dir: Path) -> None:
    command = ["unshare", "-Urpf", "--mount-proc", sys.executable, "-c", COUNT_AND_WAIT]
    if subprocess.run(["unshare", "-Urpf", "--mount-proc", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no pid namespaces here")
    child = subprocess.Popen(command, env=clean_env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child, Reader(shm_dir) as reader:
        assert child.stdout.readline() == "ready\n"
        [view] = reader.poll()
        assert (view.snapshot.pid, view.alive) == (1, True)
        assert view.host_pid not in (None, 1)
        assert liveness.start_ticks(view.host_pid) == view.snapshot.pid_start_ticks
        child.stdin.close()
        child.wait()
        assert reader.reap() == [file_name(view)]


def test_processes_come_in_order_of_job_and_rank(shm_dir: Path) -> None:
    for job, rank in (("b", 1), ("a", 2), ("b", 0)):
        writer = PythonWriter(Identity(job, shm_dir, rank, 3))
        writer.enqueue(writer.find(Kind.PUSH, Source.PS, 0, rank, 3, 1), 5, 5)
    with Reader(shm_dir) as reader:
        assert [(v.snapshot.job, v.snapshot.global_rank) for v in reader.poll()] == [
            ("a", 2),
            ("b", 0),
            ("b", 1),
        ]


def test_a_directory_that_is_not_there_is_empty(shm_dir: Path) -> None:
    with Reader(shm_dir / "none") as reader:
        assert reader.poll() == [] and reader.reap() == []


def test_what_changed_is_read_once(shm_dir: Path) -> None:
    writer = PythonWriter(Identity("j", shm_dir))
    record = writer.find(Kind.COLLECTIVE, Source.TORCH, 0, 0, 2, -1)
    with Reader(shm_dir) as reader:
        reader.poll()
        writer.transmit(record, 5, 0)
        assert [view.snapshot.tx_bytes for view in reader.poll_changed({os.getpid()})] == [5]
        writer.end_iteration()
        assert reader.poll_changed({1}) == []
        [view] = reader.poll_changed({os.getpid()})
        assert view.snapshot.iteration_counter is not None and view.snapshot.iteration_counter.iteration == 1
        assert reader.poll_changed({os.getpid()}) == []


def test_what_waits_is_estimated_on_demand(shm_dir: Path) -> None:
    writer = PythonWriter(Identity("j", shm_dir))
    writer.enqueue(writer.find(Kind.PUSH, Source.PS, 0, 0, 2, 1), 500, 500)
    with Reader(shm_dir) as plain, Reader(shm_dir, estimate_waiting=True) as estimating:
        assert [reader.poll()[0].waiting_bytes for reader in (plain, estimating)] == [None, 500]

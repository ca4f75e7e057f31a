"""Both writers, through the reader: what is counted is what is read; failures are one line and no harm."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nccl_shim.segment import layout
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.layout import Kind, ProcessRole, Source
from nccl_shim.segment.reader import Reader


def read_one(directory: Path):
    with Reader(directory, estimate_waiting=True) as reader:
        [view] = reader.poll()
        return view


def test_counts_come_back_exactly(new_writer, shm_dir: Path) -> None:
    writer = new_writer(Identity("a job", shm_dir, 3, 8, 1, ProcessRole.SERVER))
    record = writer.find(Kind.COLLECTIVE, Source.TORCH, 7, 3, 8, -1)
    writer.enqueue(record, 1000, 1750)
    writer.enqueue(record, 24, 42)
    writer.transmit(record, 1750, 0)
    view = read_one(shm_dir)
    snapshot, [flow] = view.snapshot, view.snapshot.flows
    assert (snapshot.job, snapshot.global_rank, snapshot.world_size, snapshot.local_rank) == (
        "a job",
        3,
        8,
        1,
    )
    assert (snapshot.role, snapshot.pid, view.host_pid) == (ProcessRole.SERVER, os.getpid(), os.getpid())
    assert (flow.kind, flow.source, flow.comm_id, flow.peer) == (Kind.COLLECTIVE, Source.TORCH, 7, -1)
    assert (flow.enqueued_bytes, flow.enqueued_ops, flow.expected_tx_bytes) == (1024, 2, 1792)
    assert (flow.tx_bytes, flow.tx_steps, flow.rx_bytes, flow.rx_steps) == (1750, 1, 0, 0)
    assert (view.waiting_bytes, view.alive) == (42, True)


@pytest.mark.parametrize(("says", "known"), [(1000, 1000), (10**9, 0)], ids=["a-number", "for-ever"])
def test_what_the_job_asks_to_count_and_says_it_will_do(
    new_writer, shm_dir: Path, monkeypatch: pytest.MonkeyPatch, says: int, known: int
) -> None:
    monkeypatch.setenv("PACELINE_WEIGHT", "0.25")
    monkeypatch.setenv("PACELINE_ITERATIONS", str(says))
    writer = new_writer(Identity("j", shm_dir, weight_milli=250, iterations=says))
    snapshot = read_one(shm_dir).snapshot
    assert (snapshot.weight, snapshot.iterations) == (0.25, known)
    del writer


def test_the_iteration_counter_carries_bytes_and_time(new_writer, shm_dir: Path) -> None:
    writer = new_writer(Identity("j", shm_dir))
    out = writer.find(Kind.PUSH, Source.PS, 0, 0, 2, 1)
    inbound = writer.find(Kind.PULL, Source.PS, 0, 0, 2, 1)
    for size_bytes in (500, 700):
        writer.enqueue(out, size_bytes, size_bytes)
        writer.enqueue(inbound, 10**6, 0)  # comes in: not part of what this process sends
        writer.transmit(out, size_bytes, 0)
        number = writer.end_iteration()
    writer.enqueue(out, 9, 9)
    view = read_one(shm_dir)
    counter = view.snapshot.iteration_counter
    assert number == counter.iteration == 2
    assert (counter.last_enqueued_bytes, counter.enqueued_at_start, counter.tx_at_start) == (700, 1200, 1200)
    assert (view.iteration_enqueued_bytes, view.iteration_sent_bytes) == (9, 0)
    assert 0 < counter.last_duration_ns < 10**9


def test_what_was_moved_before_the_first_iteration_is_no_part_of_it(new_writer, shm_dir: Path) -> None:
    writer = new_writer(Identity("j", shm_dir))
    out = writer.find(Kind.COLLECTIVE, Source.TORCH, 0, 0, 2, -1)
    writer.enqueue(out, 900, 900)
    writer.begin_iterations()
    assert read_one(shm_dir).iteration_enqueued_bytes == 0
    writer.enqueue(out, 500, 500)
    assert writer.end_iteration() == 1
    writer.enqueue(out, 7, 7)
    writer.begin_iterations()  # too late: they have begun
    view = read_one(shm_dir)
    assert (view.snapshot.iteration_counter.iteration, view.snapshot.iteration_counter.last_enqueued_bytes) == (1, 500)
    assert view.iteration_enqueued_bytes == 7


def test_one_flow_has_one_record(new_writer, shm_dir: Path) -> None:
    writer = new_writer(Identity("j", shm_dir))
    first = writer.find(Kind.SEND, Source.NCCL, 1, 0, 4, 2)
    assert writer.find(Kind.SEND, Source.NCCL, 1, 0, 4, 2) == first
    others = {
        writer.find(Kind.RECV, Source.NCCL, 1, 0, 4, 2),
        writer.find(Kind.SEND, Source.NCCL, 2, 0, 4, 2),
        writer.find(Kind.SEND, Source.NCCL, 1, 0, 4, 3),
        writer.find(Kind.SEND, Source.PS, 1, 0, 4, 2),
    }
    assert len(others | {first}) == 5


def test_when_records_run_out_bytes_are_still_counted(new_writer, shm_dir: Path) -> None:
    writer = new_writer(Identity("j", shm_dir))
    for peer in range(layout.RECORD_COUNT + 10):
        writer.enqueue(writer.find(Kind.PUSH, Source.PS, 0, 0, 2, peer), 1, 1)
    assert writer.find(Kind.PULL, Source.PS, 0, 0, 2, 5) is None, "inbound bytes must not enter the outbound sum"
    snapshot = read_one(shm_dir).snapshot
    assert snapshot.enqueued_bytes == layout.RECORD_COUNT + 10
    assert snapshot.dropped_records == 12
    assert next(f for f in snapshot.flows if f.kind is Kind.OVERFLOW).enqueued_bytes == 11


def test_threads_lose_no_count(new_writer, shm_dir: Path) -> None:
    writer = new_writer(Identity("j", shm_dir))

    def count() -> None:
        for _ in range(2000):
            writer.enqueue(writer.find(Kind.COLLECTIVE, Source.TORCH, 1, 0, 2, -1), 3, 3)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_one(shm_dir).snapshot.enqueued_bytes == 4 * 2000 * 3


def test_files_are_private_and_named_by_process(new_writer, shm_dir: Path) -> None:
    os_umask = os.umask(0)
    try:
        new_writer(Identity("j", shm_dir))
        new_writer(Identity("j", shm_dir))
    finally:
        os.umask(os_umask)
    files = sorted(shm_dir.iterdir())
    assert len(files) == 2
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.name.startswith(f"{os.getpid()}-")
        assert file.stat().st_blocks * 512 >= layout.FILE_BYTES, "blocks are reserved: no SIGBUS on a full disk later"


def test_a_missing_directory_is_made_for_everyone(new_writer, shm_dir: Path) -> None:
    new_writer(Identity("j", shm_dir / "new"))
    assert stat.S_IMODE((shm_dir / "new").stat().st_mode) == 0o1777


COUNT = """
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.writer import process_writer
w = process_writer()
for _ in range(3):
    w.enqueue(w.find(Kind.PUSH, Source.PS, 0, 0, 2, 1), 5, 5)
    w.end_iteration()
print(type(process_writer()).__name__)
"""


def run_counting(env: dict[str, str], prefix: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", prefix + COUNT],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_the_process_writer_is_native_and_quiet(clean_env: dict, shm_dir: Path) -> None:
    done = run_counting(clean_env)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "NativeWriter", "")
    view = read_one(shm_dir)
    assert (view.snapshot.enqueued_bytes, view.snapshot.finished, view.alive) == (15, True, False)


def test_without_a_library_python_counts_and_says_so(clean_env: dict, shm_dir: Path) -> None:
    done = run_counting(clean_env | {"PACELINE_SHIM_LIBRARY": "/nonexistent.so"})
    assert (done.returncode, done.stdout.strip()) == (0, "PythonWriter")
    assert done.stderr.count("\n") == 1 and "pure Python" in done.stderr
    view = read_one(shm_dir)
    assert (view.snapshot.enqueued_bytes, view.snapshot.finished, view.snapshot.native_writer) == (
        15,
        True,
        False,
    )


def test_an_old_library_is_not_used(clean_env: dict, shm_dir: Path, tmp_path: Path) -> None:
    from nccl_shim import build

    (tmp_path / "old.c").write_text("int pls_abi_version(void) { return 0; }\n")
    build.run_compiler(["-shared", "-fPIC", str(tmp_path / "old.c"), "-o", str(tmp_path / "old.so")])
    done = run_counting(clean_env | {"PACELINE_SHIM_LIBRARY": str(tmp_path / "old.so")})
    assert (done.returncode, done.stdout.strip()) == (0, "PythonWriter")
    assert done.stderr.count("\n") == 1 and "ABI 0" in done.stderr


SMALL_FILES = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"


@pytest.mark.parametrize("library", ["native", "python"])
@pytest.mark.parametrize("trouble", ["missing parent", "not a directory", "a symlink", "file size limit"])
def test_trouble_is_one_line_and_no_harm(clean_env: dict, shm_dir: Path, library: str, trouble: str) -> None:
    place = shm_dir / "place"
    if trouble == "missing parent":
        place = place / "deeper"
    elif trouble == "not a directory":
        place.write_text("")
    elif trouble == "a symlink":
        place.symlink_to("/tmp")
    env = clean_env | {"PACELINE_SHM_DIR": str(place)}
    if library == "python":
        env["PACELINE_SHIM_LIBRARY"] = "/nonexistent.so"
    done = run_counting(env, SMALL_FILES if trouble == "file size limit" else "")
    assert (done.returncode, done.stdout.strip()) == (0, "SilentWriter")
    assert done.stderr.startswith("paceline: ") and done.stderr.count("\n") == 1, done.stderr
    assert "training goes on unobserved" in done.stderr


def test_a_forked_child_gets_its_own_file(clean_env: dict, shm_dir: Path) -> None:
    fork = COUNT + "import os\nif os.fork() == 0:\n" + "".join(f"    {line}\n" for line in COUNT.strip().splitlines())
    fork += "else: os.wait()\n"
    subprocess.run([sys.executable, "-c", fork], env=clean_env, check=True, capture_output=True, timeout=30)
    with Reader(shm_dir) as reader:
        assert [view.snapshot.enqueued_bytes for view in reader.poll()] == [15, 15]


FORKS = """
import os, sys
from nccl_shim.segment.writer import process_writer
from nccl_shim.segment.layout import Kind, Source
writer = process_writer()
writer.enqueue(writer.find(Kind.PUSH, Source.PS, 0, 0, 2, 1), 5, 5)
if (child := os.fork()) == 0:
    sys.exit(0)
os.waitpid(child, 0)
print("ready", flush=True)
sys.stdin.read()
"""


def test_the_end_of_a_forked_child_is_not_its_parents(clean_env: dict[str, str], shm_dir: Path) -> None:
    """Without the C library: the parent's segment was marked as finished, and hostd followed it no more."""
    env = clean_env | {"PACELINE_SHM_DIR": str(shm_dir), "PACELINE_SHIM_LIBRARY": "/nonexistent.so"}
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
        assert not read_one(shm_dir).snapshot.finished

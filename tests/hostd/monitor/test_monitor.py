"""What is heard of jobs: real shared-memory files, sockets and processes."""

import ctypes
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import pytest

from hostd.kernel.calls import made_by
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD
from hostd.monitor.job_tracker import LATE_NS
from hostd.monitor.monitor import FRESH_NS, HOUSEKEEPING_NS, IDLE_NS, LEARNING_LOOK_NS
from hostd.monitor.users import Users
from nccl_shim.segment.layout import Header, Kind, Source
from nccl_shim.segment.liveness import start_ticks
from paceline.flowcore.messages.events import FlowDone, FlowReady, HostEvent, IterationEnded, JobJoined, JobLeft
from tests.hostd.conftest import wait_until
from tests.hostd.crowd import further_names
from tests.hostd.monitor.conftest import BURST_BYTES, FLOW, ITERATIONS, JOB, MS, LateWorker, OwnJob, Watched, joined

pytestmark = pytest.mark.root

NOBODY = 65534


class Feeding:
    """Another host that sends to this process, and is sent nothing."""

    def __init__(self, address: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._theirs = socket.create_connection(listener.getsockname(), source_address=(address, 0))
            self._ours, _ = listener.accept()

    def send(self, size_bytes: int) -> None:
        sending = threading.Thread(target=self._theirs.sendall, args=(bytes(size_bytes),))
        sending.start()
        while size_bytes:
            size_bytes -= len(self._ours.recv(size_bytes))
        sending.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._theirs.close()
        self._ours.close()


def test_hosts_that_feed_a_job_are_told_from_sockets_that_only_receive(job: OwnJob, watched: Watched) -> None:
    with Feeding("127.0.0.3") as before, Feeding("127.0.0.4") as early:
        early.send(BURST_BYTES)
        watched.step()
        early.send(BURST_BYTES)  # it prepared the first iteration, and sends no more
        events: list[HostEvent] = []
        for _ in range(8):
            before.send(BURST_BYTES)
            job.answer(1000)  # control, on the connection that sends
            job.iterate()
            watched.now_ns += 200 * MS
            events += [*watched.step(), *watched.step()]
        joined = [event for event in events if isinstance(event, JobJoined)][-1]
    [spec] = joined.flows
    assert (spec.flow.target, [feeder.source for feeder in spec.upstream]) == ("h1", ["h2"])
    assert len(watched.monitor.sockets_of(spec.flow)) == 1, "and only what sends is limited"


def test_a_job_from_its_first_bytes_to_its_end(job: OwnJob, watched: Watched, tmp_path: Path) -> None:
    joined(job, watched)
    assert watched.heard == [], "its sockets were there when it joined"
    job.announce()
    [ready] = [event for event in watched.until(FlowReady) if isinstance(event, FlowReady)]
    assert len(watched.monitor.sockets_of(ready.flow)) == 1
    job.send(BURST_BYTES // 2)
    wait_until(lambda: watched.progress() > 0.4 * BURST_BYTES)
    assert watched.monitor.progress(watched.now_ns, {JOB}).sent_bytes == (), "told a moment ago"
    watched.now_ns += FRESH_NS
    assert watched.monitor.progress(watched.now_ns, {"b"}).sent_bytes == ()
    job.send(BURST_BYTES // 2)
    watched.until(FlowDone)
    watched.now_ns += FRESH_NS
    assert watched.monitor.progress(watched.now_ns, {JOB}).sent_bytes == (), "nothing is live"
    job.writer.end_iteration()
    watched.until(IterationEnded)
    next(tmp_path.glob("*")).unlink()
    assert watched.until(JobLeft)[-1] == JobLeft(JOB)
    assert watched.monitor.jobs == {}


def test_a_job_joins_with_its_first_iteration_whatever_prepared_it(job: OwnJob, watched: Watched) -> None:
    """As DDP does it: the parameters go to all other ranks first, and those send nothing before their first burst."""
    job.answer(2 * BURST_BYTES)
    job.writer.enqueue(job.record, 2 * BURST_BYTES, 0)
    watched.step()
    job.writer.begin_iterations()
    watched.now_ns += LEARNING_LOOK_NS
    watched.step()
    job.announce()
    watched.step()
    job.send(BURST_BYTES)
    job.writer.end_iteration()
    [joins] = [event for event in watched.until(JobJoined) if isinstance(event, JobJoined)]
    assert [spec.size_bytes for spec in joins.flows] == [pytest.approx(BURST_BYTES * WIRE_PER_PAYLOAD, rel=1e-3)]
    assert joins.iterations == ITERATIONS - 1
    assert len(watched.monitor.sockets_of(FLOW)) == 1


@pytest.mark.parametrize("over_gloo", [0, 100])
def test_a_burst_over_nccl_is_seen_where_no_plugin_counts_it(watched: Watched, tmp_path: Path, over_gloo: int) -> None:
    """An old NCCL takes no plugin, and then only the hook speaks: it ends iterations, and announces nothing but what
    the job agrees on over gloo besides."""
    job = OwnJob(tmp_path, announces=False)
    for _ in range(6):  # it rests at every look
        job.iterate()
        if over_gloo:
            record = job.writer.find(Kind.COLLECTIVE, Source.TORCH, 1, 0, 2, -1)
            job.writer.enqueue(record, over_gloo, over_gloo)
            job.writer.transmit(record, over_gloo, 0)
        watched.now_ns += 200 * MS
        watched.step()
        watched.now_ns += 200 * MS
        watched.step()
    assert watched.monitor.jobs[JOB].demand.paced
    job.send(BURST_BYTES // 2)
    assert any(isinstance(event, FlowReady) for event in watched.until(FlowReady))
    job.close()


def test_a_burst_is_heard_of_with_the_next_answer_where_one_is_late(job: OwnJob, watched: Watched) -> None:
    """Its counters have been read by then, and do not move again."""
    joined(job, watched)
    job.announce()
    with made_by(LateWorker()):
        watched.now_ns += 40 * MS
        assert watched.step() == []
    before_ns = watched.now_ns
    assert any(isinstance(event, FlowReady) for event in watched.step())
    assert watched.now_ns - before_ns <= LATE_NS


def test_a_few_bytes_do_not_announce_a_burst(job: OwnJob, watched: Watched) -> None:
    """A loss that is summed up to be printed, say."""
    joined(job, watched)
    job.writer.enqueue(job.record, 8, 8)
    watched.now_ns += 200 * MS
    assert [*watched.step(), *watched.step()] == []
    job.announce()
    watched.until(FlowReady)


NEWCOMER = """
import sys
from nccl_shim.segment.identity import identity_from_env
from nccl_shim.segment.python_writer import PythonWriter
writer = PythonWriter(identity_from_env())
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_job_that_comes_is_noticed_before_the_next_second(job: OwnJob, watched: Watched, tmp_path: Path) -> None:
    watched.step()
    env = os.environ | {"PACELINE_SHM_DIR": str(tmp_path), "PACELINE_JOB": "b", "RANK": "0", "WORLD_SIZE": "2"}
    command = [sys.executable, "-c", NEWCOMER]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as newcomer:
        assert newcomer.stdout is not None and newcomer.stdout.readline() == b"ready\n"
        began_ns = watched.now_ns
        while watched.now_ns < began_ns + 2 * IDLE_NS:
            job.announce()  # a job must give reason to look
            watched.step()
        assert watched.monitor.jobs.keys() == {JOB, "0/b"}


def test_a_process_is_of_one_job(job: OwnJob, watched: Watched, tmp_path: Path) -> None:
    """With 500 names it would be looked at 500 times."""
    watched.step()
    [file] = tmp_path.iterdir()
    further_names(file, 500)
    for _ in range(10):
        watched.now_ns += HOUSEKEEPING_NS
        watched.step()
    assert watched.monitor.jobs.keys() == {JOB}
    assert len(watched.monitor.invisible) < 100


@pytest.mark.parametrize("where", ["observe", "progress"])
def test_a_fault_in_following_a_job_costs_that_job_alone(
    job: OwnJob, watched: Watched, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended hostd, and with it everybody's turns."""
    joined(job, watched)
    with Stranger(next(tmp_path.glob("*"))):
        both, _ = look_around(watched)
        assert len(both) == 2
        monkeypatch.setattr(watched.monitor.jobs[JOB].demand, where, lambda facts: {}[facts])
        job.announce()
        events = watched.until(FlowReady) if where == "progress" else []
        watched.now_ns += FRESH_NS
        assert watched.monitor.progress(watched.now_ns, {JOB}).sent_bytes == ()
        assert JobLeft(JOB) in (*events, *watched.until(JobLeft)) and JOB not in watched.monitor.jobs
        seen, invisible = look_around(watched)
        assert seen.keys() == both.keys() - {JOB} and "fault in hostd" in invisible[str(os.getpid())]
    next(tmp_path.glob("*")).unlink()
    look_around(watched)
    again = OwnJob(tmp_path)
    assert look_around(watched) == ({JOB: {os.getpid()}}, {}), "another launch may be better"
    again.close()


def test_a_late_listener_is_told_what_it_missed(job: OwnJob, watched: Watched) -> None:
    watched.step()
    assert watched.monitor.introduce(JOB) == [], "still learning"
    joined(job, watched)
    [told] = watched.monitor.introduce(JOB)
    assert isinstance(told, JobJoined)
    job.announce()
    ready = [event for event in watched.until(FlowReady) if isinstance(event, FlowReady)]
    assert watched.monitor.introduce(JOB) == [told, *ready]


def test_what_is_no_segment_is_invisible_by_name(watched: Watched, tmp_path: Path, job: OwnJob) -> None:
    own = next(tmp_path.glob("*"))
    broken = tmp_path / f"broken{own.suffix}"
    broken.write_bytes(b"x" * 10)
    broken.chmod(0o600)
    watched.step()
    assert watched.monitor.invisible.keys() == {broken.name}
    assert watched.monitor.jobs.keys() == {JOB}


def test_a_file_name_is_made_printable_before_it_is_shown(watched: Watched, tmp_path: Path, job: OwnJob) -> None:
    """Any user chooses such names, and an operator's terminal shows them."""
    suffix = next(tmp_path.glob("*")).suffix
    for name in (b"\x1b[2Jgone", b"two\nlines", b"no utf-8 \xff"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name + suffix.encode())).touch(mode=0o600)
    watched.step()
    assert watched.monitor.invisible.keys() == {
        f"{name}{suffix}" for name in ("\\x1b[2Jgone", "two\\nlines", "no utf-8 \\udcff")
    }
    assert all(why.isprintable() for why in watched.monitor.invisible.values())
    assert watched.monitor.jobs.keys() == {JOB}


class Stranger:
    """A process of another user, and a file that it put beside a job's with the job's name in it."""

    def __init__(self, of: Path) -> None:
        self.process = subprocess.Popen(["sleep", "60"], user=NOBODY)
        self._file = of.with_stem("stranger")
        header = Header.from_buffer_copy(raw := of.read_bytes())
        header.pid, header.uid, header.pid_start_ticks = self.process.pid, NOBODY, start_ticks(self.process.pid)
        self._file.write_bytes(bytes(header) + raw[ctypes.sizeof(header) :])
        self._file.chmod(0o600)
        os.chown(self._file, NOBODY, NOBODY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.process.kill()
        self.process.wait()
        self._file.unlink(missing_ok=True)


def look_around(watched: Watched) -> tuple[dict[str, set[int]], dict[str, str]]:
    """Which processes each job consists of, and which are not seen."""
    watched.now_ns += HOUSEKEEPING_NS
    watched.step()
    return {job: set(one.processes) for job, one in watched.monitor.jobs.items()}, watched.monitor.invisible


def test_two_users_jobs_of_one_name_are_two(job: OwnJob, watched: Watched, tmp_path: Path) -> None:
    """Whichever is first, and whoever comes and goes."""
    with Stranger(next(tmp_path.glob("*"))) as stranger:
        theirs = {f"{NOBODY}/a": {stranger.process.pid}}
        assert look_around(watched) == ({JOB: {os.getpid()}} | theirs, {})
        job.announce()
        job.writer.end_iteration()
        watched.now_ns += 200 * MS
        watched.step()
        facts = {name: one.facts for name, one in watched.monitor.jobs.items()}
        assert [facts[name] and facts[name].iteration for name in (JOB, f"{NOBODY}/a")] == [1, 0]
        job.writer.finish()
        assert look_around(watched) == (theirs, {})
        again = OwnJob(tmp_path)
        try:
            assert look_around(watched) == ({JOB: {os.getpid()}} | theirs, {})
        finally:
            again.close()


def test_an_operator_may_map_two_users_to_one_tenant(job: OwnJob, tmp_path: Path) -> None:
    mapped = Watched(tmp_path, Users({os.getuid(): "team", NOBODY: "team"}))
    with Stranger(next(tmp_path.glob("*"))) as stranger:
        assert look_around(mapped) == ({"team/a": {os.getpid(), stranger.process.pid}}, {})
    mapped.monitor.close()

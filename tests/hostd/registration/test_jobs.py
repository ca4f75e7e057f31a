"""Jobs register, and are known until they end; whichever side is started again finds the other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostd.registration import registrations
from nccl_shim.segment.segment_memory import SegmentMemory
from tests.hostd.conftest import wait_until
from tests.hostd.registration.conftest import Desk, does

pytestmark = pytest.mark.slow

WRITERS = {"native": {}, "python": {"PACELINE_SHIM_LIBRARY": "/nonexistent.so"}}
CLONE = (
    "import ctypes, signal; number = 220 if os.uname().machine == 'aarch64' else 56;"
    " ctypes.CDLL(None).syscall(number, signal.SIGCHLD, 0, 0, 0, 0) or (signal.alarm(5), signal.pause())"
)
EVENT = "writer.enqueue(record, 1000, 1000)"


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest) -> dict[str, str]:
    return WRITERS[request.param]


def test_a_job_is_known_from_its_start_to_its_end(desk: Desk, writer: dict[str, str]) -> None:
    before = desk.registrar_descriptors()
    process = desk.job(**writer)
    wait_until(lambda: desk.pids() == {process.pid})
    assert list(desk.directory.glob("*.pls")) == [], "nothing is left where every user can write"
    [one] = desk.there.values()
    assert one.uid == os.getuid() and desk.refused() == {}
    process.kill()
    wait_until(lambda: desk.pids() == set())
    wait_until(lambda: desk.registrar_descriptors() == before)


def test_its_counters_are_read_from_its_memory(desk: Desk, writer: dict[str, str]) -> None:
    process = desk.job(**writer)
    happened: list[object] = []
    wait_until(lambda: happened.extend(desk.registrations.receive()) or happened)
    [one] = happened
    assert isinstance(one, registrations.Registered)
    memory = SegmentMemory(one.memory, one.pid, one.started, one.uid)
    heartbeat = memory.heartbeat()
    does(process, EVENT)
    does(process, "writer.end_iteration()")
    snapshot = memory.read()
    assert (memory.job, snapshot.enqueued_bytes) == ("a", 1000) and memory.heartbeat() != heartbeat
    assert snapshot.iteration_counter is not None and snapshot.iteration_counter.iteration == 1
    process.kill()
    process.wait()
    assert not memory.is_alive()
    memory.close()


def test_a_hostd_that_is_started_again_finds_it(desk: Desk, writer: dict[str, str]) -> None:
    process = desk.job(**writer)
    wait_until(lambda: desk.pids() == {process.pid})
    desk.registrations.close()
    assert not desk.path.exists()
    does(process, f"import time; [({EVENT}, time.sleep(0.1)) for _ in range(45)]")  # nothing listens
    desk.there.clear()
    desk.registrations = registrations.Registrations(desk.path)

    def comes() -> bool:
        does(process, EVENT)
        return desk.pids() == {process.pid}

    assert wait_until(comes, 15.0) < 2.5, "however long there was none"


def test_a_registrar_that_is_killed_is_replaced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the job stays the same meanwhile."""
    monkeypatch.setattr(registrations, "RESTART_S", 0.0)
    process = desk.job()
    wait_until(lambda: desk.pids() == {process.pid})
    before, name = desk.registrations.registrar_pid, next(iter(desk.there))
    assert before is not None
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: does(process, EVENT) or desk.look() or desk.again == 1, 20.0)
    assert desk.registrations.registrar_pid != before and set(desk.there) == {name}


def test_another_hostd_at_the_same_path_gets_the_jobs(desk: Desk) -> None:
    """As where one was killed and cannot die."""
    process = desk.job()
    wait_until(lambda: desk.pids() == {process.pid})
    other = registrations.Registrations(desk.path)
    found: list[object] = []
    wait_until(lambda: does(process, EVENT) or found.extend(other.receive()) or found, 20.0)
    other.close()


@pytest.mark.parametrize("holds", [True, False], ids=["with a child", "alone"])
def test_an_end_is_seen_whatever_children_hold_open(desk: Desk, writer: dict[str, str], holds: bool) -> None:
    process = desk.job(**writer)
    wait_until(lambda: desk.pids() == {process.pid})
    if holds:
        # Without the handlers of fork: what the parent has open stays so.
        does(process, CLONE)
    process.kill()
    wait_until(lambda: desk.pids() == set(), 2.0)


def test_a_forked_child_has_a_registration_of_its_own(desk: Desk, writer: dict[str, str]) -> None:
    process = desk.job(**writer)
    wait_until(lambda: desk.pids() == {process.pid})
    does(process, "import time; from nccl_shim.segment import writer as module; child = os.fork();"
                  " child or (module.process_writer(), time.sleep(30), os._exit(0))")  # fmt: skip
    wait_until(lambda: len(desk.pids()) == 2)
    [child] = desk.pids() - {process.pid}
    process.kill()
    wait_until(lambda: desk.pids() == {child})
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: desk.pids() == set())


def test_an_exec_ends_it(desk: Desk, writer: dict[str, str]) -> None:
    process = desk.job(**writer)
    wait_until(lambda: desk.pids() == {process.pid})
    assert process.stdin is not None
    process.stdin.write("os.execv('/bin/sleep', ['sleep', '30'])\n")
    process.stdin.flush()
    wait_until(lambda: desk.pids() == set())
    assert process.poll() is None


def test_descriptors_that_a_program_closed_are_not_used(desk: Desk, writer: dict[str, str]) -> None:
    """By their numbers it may have others by now."""
    process = desk.job(**writer)
    wait_until(lambda: desk.pids() == {process.pid})
    does(
        process, "os.closerange(3, 64); pipe = os.pipe(); [os.dup2(3, number) for number in range(5, 64)]; os.close(4)"
    )
    wait_until(lambda: desk.pids() == set())
    for _ in range(3):
        does(process, "import time; time.sleep(1.05)")
        does(process, EVENT)
    does(process, "assert all(os.fstat(number) for number in (3, *range(5, 64)))")


def test_in_a_container(desk: Desk) -> None:
    """With pids of its own: the kernel says which process of the host it is."""
    told = {"PACELINE_SOCKET": str(desk.path), "PACELINE_SHM_DIR": str(desk.directory), "PACELINE_JOB": "a"}
    inside = "import os, time; from nccl_shim.segment.writer import process_writer; process_writer();"
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", inside + "time.sleep(30)"]
    with subprocess.Popen(command, env=os.environ | told, cwd=Path(__file__).parents[3]) as process:
        try:
            wait_until(lambda: desk.pids())
            [pid] = desk.pids()
            assert f"NSpid:\t{pid}\t1\n" in Path(f"/proc/{pid}/status").read_text()
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: desk.pids() == set())
        finally:
            process.kill()

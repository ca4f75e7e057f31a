"""Rates are leases: however the holder falls silent, its flows run free within ten slots and nothing is left."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostd.safety.guardian import wait_for_silence
from hostd.safety.lease import Lease
from hostd.safety.undo import SysctlUndo
from hostd.safety.undo_log import Revoked, UndoLog, release
from tests.hostd.conftest import Job, Wire, next_line, wait_until

pytestmark = pytest.mark.root

HOLDER = str(Path(__file__).with_name("holder.py"))
LINK_BPS = 1e9
HELD_BPS = 0.05 * LINK_BPS
SLOT_MS = 100
TEN_SLOTS_S = 10 * SLOT_MS / 1e3


class Held:
    """A job at 5 % of the link, its holder, and how everything was before."""

    def __init__(self, wire: Wire, path: Path, backend: str, *options: str) -> None:
        wire.sink()
        self.wire, self.path, self.job = wire, path, wire.send(2)
        self.sockets = self.job.sockets(2)
        self.before = wire.state(self.sockets)
        arguments = [backend, str(path), str(self.job.pid), str(HELD_BPS), str(SLOT_MS), *options]
        environment = os.environ | {"PYTHONPATH": str(Path(HOLDER).parents[3])}
        self.holder = wire.here.popen(
            [sys.executable, HOLDER, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        wire.stack.callback(Job(self.holder).end)
        self.guardian = int(self.line("holding"))
        assert self.state() != self.before

    def line(self, word: str) -> str:
        line = next_line(self.holder)
        assert line.startswith(word), line
        return line.removeprefix(word)

    def state(self) -> object:
        return self.wire.state(self.sockets)

    def is_free(self) -> bool:
        return self.job.rate_bps(self.sockets, 0.3) > 4 * HELD_BPS


@pytest.fixture(params=["htb", "pacing"])
def hold(request: pytest.FixtureRequest, wire: Wire, tmp_path: Path) -> Callable[..., Held]:
    return lambda *options: Held(wire, tmp_path / "run" / "lease.json", request.param, *options)


def test_killed(hold: Callable[..., Held]) -> None:
    held = hold()
    held.job.comes_to(held.sockets, 0, 2 * HELD_BPS)
    held.holder.kill()
    assert wait_until(lambda: held.state() == held.before) < TEN_SLOTS_S
    wait_until(held.is_free)
    assert not held.path.exists()


def test_stopped_and_continued(hold: Callable[..., Held]) -> None:
    held = hold()
    held.holder.send_signal(signal.SIGSTOP)
    assert wait_until(lambda: held.state() == held.before) < TEN_SLOTS_S
    wait_until(held.is_free)
    # Awake again it finds the lease revoked, throws its books away and begins anew.
    held.holder.send_signal(signal.SIGCONT)
    held.line("revoked")
    assert int(held.line("holding")) != held.guardian
    assert held.state() != held.before
    held.holder.kill()
    wait_until(lambda: held.state() == held.before)


def test_exception_in_the_loop(hold: Callable[..., Held]) -> None:
    held = hold("fail")
    held.holder.wait(timeout=30)
    assert wait_until(lambda: held.state() == held.before) < TEN_SLOTS_S
    wait_until(held.is_free)


def test_guardian_killed_first(hold: Callable[..., Held]) -> None:
    held = hold()
    os.kill(held.guardian, signal.SIGKILL)
    successor = int(held.line("replaced"))
    assert successor != held.guardian
    assert held.state() != held.before  # no flow noticed: the limits stay
    held.holder.kill()
    assert wait_until(lambda: held.state() == held.before) < TEN_SLOTS_S


def test_both_killed_and_released_by_hand(hold: Callable[..., Held]) -> None:
    held = hold()
    held.holder.send_signal(signal.SIGSTOP)  # or it would replace the guardian
    os.kill(held.guardian, signal.SIGKILL)
    held.holder.kill()
    held.holder.wait()
    assert held.state() != held.before
    # As ExecStopPost and `paceline release --all` do it.
    program = "import sys, pathlib; from hostd.safety.undo_log import release"
    program += "; print(release(pathlib.Path(sys.argv[1])))"
    environment = {"PYTHONPATH": str(Path(HOLDER).parents[3])}
    command = [sys.executable, "-S", "-c", program, str(held.path)]
    released = held.wire.here.popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert released.communicate()[0] == "{}\n"
    assert held.state() == held.before
    assert not held.path.exists()


def test_released_under_a_living_holder(hold: Callable[..., Held]) -> None:
    """An operator's breakglass wins: the holder notices at its next beat."""
    held = hold()
    with held.wire.here.enter():
        assert release(held.path) == {}
    held.line("revoked")
    held.line("holding")


def test_a_service_stop_does_not_end_the_guardian_before_the_daemon(hold: Callable[..., Held]) -> None:
    held = hold()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(held.guardian, number)
    held.holder.kill()
    assert wait_until(lambda: held.state() == held.before) < TEN_SLOTS_S


def test_an_orderly_end_takes_the_guardian_along(tmp_path: Path) -> None:
    lease = Lease(UndoLog(tmp_path / "lease.json"), SLOT_MS * 1_000_000)
    guardian = lease.guardian_pid
    lease.beat()
    assert lease.close() == {}
    assert not Path(f"/proc/{guardian}").exists()
    with pytest.raises(Revoked):
        lease.undo_log.check()


def test_a_holder_may_take_its_time_until_its_first_beat(tmp_path: Path) -> None:
    """On a busy machine it was revoked before it could begin, again and again."""
    lease = Lease(UndoLog(tmp_path / "lease.json"), 10_000_000)
    time.sleep(0.3)
    lease.beat()
    time.sleep(0.02)
    lease.beat()
    wait_until(lambda: not lease.undo_log.path.exists())
    with pytest.raises(Revoked):
        lease.beat()
    lease.close()


@pytest.mark.parametrize(("program", "patience"), [("while True: pass", 1.8), ("input()", 1.0)])
def test_a_holder_that_waits_for_a_cpu_is_waited_for_a_little_longer(program: str, patience: float) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b".")
    command = [sys.executable, "-S", "-c", f"print(flush=True)\n{program}"]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline()
    time.sleep(0.1)
    began_s = time.monotonic()
    try:
        assert not wait_for_silence(ours, 300, holder.pid)
        assert time.monotonic() - began_s >= 0.3 * patience - 0.01
        assert patience > 1.0 or time.monotonic() - began_s < 0.5
    finally:
        holder.kill()
        holder.communicate()
        os.close(ours)
        os.close(theirs)


def test_the_guardian_runs_no_module_of_the_directory_hostd_was_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    for module in ("json.py", "os.py", "select.py", "hostd.py"):
        (tmp_path / module).write_text(f"open({str(ran)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    lease = Lease(UndoLog(Path("run/lease.json")), SLOT_MS * 1_000_000)
    try:
        assert not ran.exists()
        assert Path(f"/proc/{lease.guardian_pid}/cwd").readlink() == Path("/")
    finally:
        assert lease.close() == {}


def test_a_guardian_that_could_not_restore_everything_has_revoked_all_the_same(tmp_path: Path) -> None:
    undo_log = UndoLog(tmp_path / "lease.json")
    undo_log.record({"not ours": SysctlUndo("/proc/sys/kernel/hostname", "x")})
    lease = Lease(undo_log, 10_000_000)
    os.waitid(os.P_PID, lease.guardian_pid, os.WEXITED | os.WNOWAIT)  # it heard nothing
    assert undo_log.path.exists()
    with pytest.raises(Revoked, match="heard nothing"):
        lease.beat()
    descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208
    assert lease.close().keys() == {"not ours"}
    assert os.listdir("/proc/self/fd") == descriptors, "the guardian's were closed already"  # noqa: PTH208


def test_a_guardian_that_ends_at_once_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its interpreter does not find its libraries."""
    lease = Lease(UndoLog(tmp_path / "lease.json"), SLOT_MS * 1_000_000)
    monkeypatch.setattr("hostd.workers.child.sys.executable", "/bin/false")
    descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(OSError, match="guardian does not start"):
        Lease(lease.undo_log, SLOT_MS * 1_000_000)
    assert os.listdir("/proc/self/fd") == descriptors  # noqa: PTH208
    os.kill(lease.guardian_pid, signal.SIGKILL)
    os.waitid(os.P_PID, lease.guardian_pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(Revoked, match="no other can be started"):
        lease.beat()
    assert lease.close() == {} and not lease.undo_log.path.exists()


def test_without_a_guardian_there_is_no_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(UndoLog(tmp_path / "lease.json"), SLOT_MS * 1_000_000)
    os.kill(lease.guardian_pid, signal.SIGKILL)
    os.waitid(os.P_PID, lease.guardian_pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr("hostd.workers.child.sys.executable", "/nonexistent/python")
    with pytest.raises(Revoked, match="no other can be started"):
        lease.beat()
    assert lease.close() == {} and not lease.undo_log.path.exists()


def test_a_guardian_starts_however_many_descriptors_there_are(tmp_path: Path) -> None:
    """Each segment that a job has registered is one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2048), before[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        lease = Lease(UndoLog(tmp_path / "lease.json"), SLOT_MS * 1_000_000)
        assert lease.close() == {}
    finally:
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

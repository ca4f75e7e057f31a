"""One hostd per network namespace, whatever other users do."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostd.safety import instance
from hostd.safety.instance import only_hostd_here
from paceline.service.lockfile import AlreadyRunning, only_instance, was_killed
from tests.hostd.conftest import next_line, wait_until
from tests.hostd.hostile import ROOT, Jobs, jobs
from tests.hostd.missing_page import DEVICE

__all__ = ["jobs"]  # a fixture

pytestmark = pytest.mark.root

NOBODY = 65534
HOLD = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
held = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[3]))
held.bind(chr(0) + sys.argv[1])
exec(sys.argv[4])
print("held", flush=True)
sys.stdin.read()
"""
FULL = """
held.listen(0)
waiting = []
try:
    while True:
        waiting.append(socket.socket(socket.AF_UNIX))
        waiting[-1].setblocking(False)
        waiting[-1].connect(chr(0) + sys.argv[1])
except BlockingIOError:
    pass
"""


@pytest.fixture(autouse=True)
def name(monkeypatch: pytest.MonkeyPatch) -> str:
    """One of the test's own: hostd may run on this machine."""
    made = f"paceline-test-{os.getpid()}"
    monkeypatch.setattr(instance, "NAME", b"\0" + made.encode())
    return made


@contextmanager
def held(name: str, uid: int, then: str = "", kind: str = "SOCK_STREAM") -> Iterator[int]:
    """By a process of that user, which then does something with it; its pid."""
    command = [sys.executable, "-c", HOLD, name, str(uid), kind, then]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.stdin.close()


def test_a_second_one_is_told_of_the_first() -> None:
    with only_hostd_here(), pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"), only_hostd_here():
        pass
    with only_hostd_here():  # it has gone with the block
        pass


@pytest.mark.parametrize("then", ["", "held.listen()", FULL], ids=["bound", "listening", "full"])
def test_another_user_keeps_no_hostd_from_starting(name: str, then: str, caplog: pytest.LogCaptureFixture) -> None:
    with held(name, NOBODY, then), only_hostd_here():
        assert f"uid {NOBODY} holds hostd's name" in caplog.text


@pytest.mark.parametrize("then", ["", "held.listen()", FULL], ids=["bound", "listening", "full"])
def test_root_does(name: str, then: str) -> None:
    with held(name, 0, then), pytest.raises(AlreadyRunning), only_hostd_here():
        pass


def test_a_hostd_without_root_keeps_its_users_second_one_away(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    listening = held(name, NOBODY, "held.listen()")
    with listening as pid, pytest.raises(AlreadyRunning, match=f"pid {pid}"), only_hostd_here():
        pass


def test_another_kind_of_socket_is_another_name(name: str) -> None:
    """Of which a second user may have one."""
    with held(name, NOBODY, "", "SOCK_DGRAM"), only_hostd_here(), pytest.raises(AlreadyRunning), only_hostd_here():
        pass


def test_an_unknown_holder_is_taken_for_a_hostd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "_NETLINK_SOCK_DIAG", 31)  # no such protocol, as in a kernel without it
    with held(name, NOBODY, "held.listen()"), pytest.raises(AlreadyRunning), only_hostd_here():
        pass


CANNOT_DIE = """
import sys
from pathlib import Path
from hostd.kernel.pidfd import duplicated_socket
from hostd.kernel.tcp_info import TcpCounters
from hostd.safety import instance
from paceline.service.lockfile import only_instance
instance.NAME = b"\\0" + sys.argv[1].encode()
with instance.only_hostd_here(), only_instance(Path(sys.argv[2])):
    print("held", flush=True)
    with duplicated_socket(*map(int, sys.argv[3:])) as theirs:
        TcpCounters.of(theirs)
"""


@pytest.mark.skipif(not DEVICE.exists(), reason="needs userfaultfd")
def test_one_that_was_killed_and_cannot_die_keeps_no_other_away(name: str, jobs: Jobs, tmp_path: Path) -> None:
    job, lock = jobs.start(), tmp_path / "lock"
    job.does("hold")
    command = [sys.executable, "-c", CANNOT_DIE, name, str(lock), *map(str, job.call[1:])]
    before = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert next_line(before) == "held"
        wait_until(lambda: Path(f"/proc/{before.pid}/stat").read_text().rpartition(")")[2].split()[0] == "D")
        for refused in (only_hostd_here(), only_instance(lock)):
            with pytest.raises(AlreadyRunning, match=f"pid {before.pid}"), refused:
                pass
        before.kill()
        assert was_killed(before.pid) and before.poll() is None
        with only_hostd_here(), only_instance(lock):
            for refused in (only_hostd_here(), only_instance(lock)):
                with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"), refused:
                    pass
            job.does("let go")
            before.wait(10)
            with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"), only_hostd_here():
                pass
    finally:
        before.kill()
        job.end()
        before.communicate()

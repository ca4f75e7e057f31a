"""One hostd per network namespace, whatever other users do."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostd.safety import instance
from hostd.safety.instance import only_hostd_here
from paceline.service.lockfile import AlreadyRunning

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

"""A descriptor whose close never returns costs a receiver, and neither hostd nor another user's jobs anything."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.registration import registrar
from nccl_shim.segment.registration import MESSAGE
from tests.hostd.conftest import next_line, wait_until
from tests.hostd.registration.conftest import ROOT, Desk
from tests.hostd.registration.hanging_file import DEVICE, HangingFile

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(not DEVICE.exists() or os.geteuid() != 0, reason="no FUSE here"),
]

SEND = """
import os, socket, sys, time
path, file, text = sys.argv[1], os.open(sys.argv[2], os.O_RDONLY), bytes.fromhex(sys.argv[3])
os.setgid(65534), os.setuid(65534)
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
one.connect(path)
try:
    socket.send_fds(one, [text], [file])
    print("sent", flush=True)
    assert one.recv(1) == b""
except OSError:  # closed before the message had gone
    pass
print("refused", flush=True)
time.sleep(60)  # its own close would be counted, too
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[HangingFile]:
    path = tmp_path / "hanging"
    path.touch()
    made = HangingFile(path)
    yield made
    made.release()


def test_a_file_whose_close_never_returns(desk: Desk, file: HangingFile) -> None:
    for parent in desk.path.parents:
        if parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o711)
    command = [sys.executable, "-c", SEND, str(desk.path), str(file.path), MESSAGE.hex()]
    users: list[subprocess.Popen[str]] = []
    try:
        for number in range(1, registrar.MOST_STUCK + 1):
            users.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
            assert [next_line(users[-1]), next_line(users[-1])] == ["sent", "refused"]
            wait_until(lambda number=number: desk.refused() == {"seals": number})
            wait_until(lambda number=number: file.flushes == number)  # its receiver hangs from now on
            process = desk.job()
            wait_until(lambda process=process: process.pid in desk.pids(), 2.0)
        wait_until(lambda: _stuck(desk) == registrar.MOST_STUCK)
        users.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        wait_until(lambda: desk.refused().get("held") == 1)
        assert file.flushes == registrar.MOST_STUCK, "no further descriptor of this user is received"
    finally:
        file.release()
        for one in users:
            with one:
                one.kill()
    wait_until(lambda: _stuck(desk) == 0)


def _stuck(desk: Desk) -> int:
    children = Path(f"/proc/{desk.registrations.registrar_pid}/task/{desk.registrations.registrar_pid}/children")
    return len(children.read_text().split())

"""What no shim would send is refused and counted, and costs no other job anything."""

import array
import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostd.monitor.monitor import HOUSEKEEPING_NS, Monitor
from hostd.registration import registrar
from nccl_shim.segment import layout
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.python_writer import PythonWriter
from nccl_shim.segment.registration import MESSAGE, SEALS
from tests.hostd.conftest import wait_until
from tests.hostd.registration.conftest import ROOT, Desk

pytestmark = pytest.mark.slow


def memory(size: int = layout.FILE_BYTES, seals: int = SEALS, hollow: bool = False) -> int:
    made = os.memfd_create("forged", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    if hollow:
        os.ftruncate(made, size)
    else:
        os.posix_fallocate(made, 0, size)
    fcntl.fcntl(made, fcntl.F_ADD_SEALS, seals)
    return made


def pipe() -> int:
    reading, _writing = os.pipe()
    return reading


FORGED: dict[str, tuple[bytes, Callable[[], list[int]], str]] = {
    "no descriptor": (MESSAGE, list, "descriptor"),
    "two": (MESSAGE, lambda: [memory(), memory()], "descriptor"),
    "many": (MESSAGE, lambda: [memory()] * 200, "descriptor"),
    "truncated": (MESSAGE[:-1], lambda: [memory()], "message"),
    "huge": (MESSAGE * 4096, lambda: [memory()], "message"),
    "another version": (MESSAGE[:8] + struct.pack("=II", 2, layout.FILE_BYTES), lambda: [memory()], "message"),
    "no seals": (MESSAGE, lambda: [memory(seals=0)], "seals"),
    "it can shrink": (MESSAGE, lambda: [memory(seals=SEALS & ~fcntl.F_SEAL_SHRINK)], "seals"),
    "holes can be made": (MESSAGE, lambda: [memory(seals=SEALS & 0xF)], "seals"),
    "a file": (MESSAGE, lambda: [os.open("/etc/passwd", os.O_RDONLY)], "seals"),
    "a pipe": (MESSAGE, lambda: [pipe()], "seals"),
    "too small": (MESSAGE, lambda: [memory(size=4096)], "size"),
    "too large": (MESSAGE, lambda: [memory(size=1 << 20)], "size"),
    "hollow": (MESSAGE, lambda: [memory(hollow=True)], "size"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_message(desk: Desk, case: str) -> None:
    text, descriptors, reason = FORGED[case]
    before = desk.registrar_descriptors()
    with desk.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        socket.send_fds(connection, [text], descriptors())
        wait_until(lambda: desk.refused() == {reason: 1})
        assert connection.recv(1) == b"", "it is closed"
    assert desk.pids() == set() and len(desk.registrations.named()) == 1
    wait_until(lambda: desk.registrar_descriptors() == before)


def test_nothing_is_sent(desk: Desk) -> None:
    with desk.connect() as connection:
        assert wait_until(lambda: desk.refused() == {"silent": 1}) > 0.5 * registrar.SILENT_S
        assert connection.recv(1) == b""


def test_a_process_has_a_few(desk: Desk) -> None:
    connections = [desk.connect() for _ in range(registrar.MOST_OF_PROCESS + 3)]
    for one in connections[: registrar.MOST_OF_PROCESS]:
        socket.send_fds(one, [MESSAGE], [memory()])
    wait_until(lambda: desk.refused() == {"quota": 3})
    desk.look()
    assert len(desk.there) == registrar.MOST_OF_PROCESS
    for one in connections:
        one.close()
    wait_until(lambda: desk.pids() == set())


FLOOD = """
import os, socket, sys, time
path, processes, uid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.setgid(uid), os.setuid(uid)
kept = []
for _ in range(processes):
    if not os.fork():
        for _ in range(8):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            while True:
                try:
                    one.connect(path)
                    break
                except OSError:
                    time.sleep(0.05)
            kept.append(one)
        time.sleep(60)
        os._exit(0)
print("full", flush=True)
time.sleep(60)
"""


@pytest.mark.root
def test_a_user_has_so_many(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """And another user's jobs register beside them."""
    for parent in desk.path.parents:
        if parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o711)
    wanted = registrar.MOST_OF_USER // 8 + 4
    command = [sys.executable, "-c", FLOOD, str(desk.path), str(wanted), "65534"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as crowd:
        try:
            wait_until(lambda: desk.refused().get("quota", 0) >= 32, 20.0)
            process = desk.job()
            wait_until(lambda: process.pid in desk.pids(), 10.0)
        finally:
            os.killpg(crowd.pid, 9)
    wait_until(lambda: desk.registrar_descriptors() < 20, 20.0)


def test_sockets_that_linger_are_not_waited_for(desk: Desk) -> None:
    """The last close of a socket with SO_LINGER waits until all is sent; here it never is."""
    before = desk.registrar_descriptors()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for text in (b"", MESSAGE, MESSAGE):
            with desk.connect() as connection:
                lingering = socket.create_connection(listener.getsockname())
                accepted, _ = listener.accept()
                lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
                lingering.setblocking(False)
                while True:
                    try:
                        lingering.send(bytes(1 << 16))
                    except BlockingIOError:
                        break
                descriptors = array.array("i", [lingering.fileno()])
                for _ in range(3):  # the first is received, the rest are closed with the connection
                    connection.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
                os.close(lingering.detach())
                began_s = time.monotonic()
                process = desk.job()
                wait_until(lambda process=process: process.pid in desk.pids(), 5.0)
                assert time.monotonic() - began_s < 3.0
                accepted.detach()
    wait_until(lambda: sum(desk.refused().values()) >= 3)
    assert desk.registrar_descriptors() <= before + 6


def test_memory_that_names_another_process(desk: Desk, tmp_path: Path) -> None:
    """Whose segment it is, the kernel says."""
    monitor = Monitor("h0", {}, 1e9, tmp_path, lambda flow, sockets: None, (), desk.registrations)
    process, job = desk.job(), f"{os.getuid()}/a"
    now_ns = 0

    def look() -> list[str]:
        nonlocal now_ns
        now_ns += HOUSEKEEPING_NS
        monitor.poll(now_ns)
        return sorted(monitor.jobs)

    wait_until(lambda: look() == [job])
    victim = PythonWriter(Identity("a", tmp_path), registered=True)
    header = layout.Header.from_buffer(victim._map)
    header.pid, header.job = process.pid, b"b"
    with desk.connect() as connection:
        socket.send_fds(connection, [MESSAGE], [victim._file])
        wait_until(lambda: look() and desk.registrations.refused["segment"] == 1)
        assert look() == [job] and list(monitor.jobs[job].processes) == [process.pid]
        assert list(monitor.invisible) == [f"{os.getpid()} of uid {os.getuid()}"]
    monitor.close()

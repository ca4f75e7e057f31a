"""Finding a job's data sockets: across namespaces, both families, between hosts, cheaply while nothing changes."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostd.kernel import socket_search, sockets
from hostd.kernel.socket_search import SocketSearch
from hostd.kernel.sockets import DataSocket, ProcessSockets, by_host
from hostd.kernel.tcp_info import TcpCounters
from tests.hostd.conftest import HERE, HERE6, PORT, THERE, THERE6, Wire, next_line, wait_until

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[3]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def own(least_bytes: int = 0) -> ProcessSockets:
    return ProcessSockets(os.getpid(), least_bytes)


def test_a_process_in_another_namespace(wire: Wire) -> None:
    wire.sink()
    job = wire.send(3)
    found = job.sockets(3)
    namespace = os.stat(f"/proc/{job.pid}/ns/net").st_ino  # noqa: PTH116
    assert {(one.local, one.remote, one.remote_port) for one in found} == {(str(HERE.ip), str(THERE.ip), PORT)}
    assert {one.namespace for one in found} == {namespace} != {sockets.own_namespace()}
    assert len({one.cookie for one in found}) == 3


def test_ipv6_and_ipv4_inside_ipv6(wire: Wire) -> None:
    wire.sink(THERE6, PORT)
    [plain] = wire.send(1, THERE6, PORT).sockets()
    assert (plain.local, plain.remote) == (HERE6, THERE6)
    with ExitStack() as stack:
        dual = stack.enter_context(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
        stack.enter_context(socket.create_connection(("127.0.0.1", dual.getsockname()[1])))
        accepted = stack.enter_context(dual.accept()[0])
        accepted.sendall(bytes(1000))
        process = own(1000)
        wait_until(lambda: (process.look() or True) and process.sockets)
        assert [(one.fd, one.local) for one in process.sockets] == [(accepted.fileno(), "127.0.0.1")]


def test_only_connections_that_carried_data_count(listener: socket.socket) -> None:
    with ExitStack() as stack:
        stack.enter_context(socket.socket())  # not connected
        stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for one in socket.socketpair():
            stack.enter_context(one)
        ours = stack.enter_context(socket.create_connection(listener.getsockname()))
        theirs = stack.enter_context(listener.accept()[0])
        process = own(5000)
        process.look()
        assert process.sockets == ()
        ours.sendall(bytes(10_000))
        wait_until(process.look)
        assert [one.fd for one in process.sockets] == [ours.fileno()]
        wait_until(lambda: process.look() or [one.fd for one in process.receiving] == [theirs.fileno()])
        theirs.sendall(bytes(10_000))  # the other direction counts on its own
        wait_until(process.look)
        assert {one.fd for one in process.sockets} == {ours.fileno(), theirs.fileno()}
        assert process.receiving == ()


def test_a_look_at_an_unchanged_process_reads_no_names(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        ours = stack.enter_context(socket.create_connection(listener.getsockname()))
        theirs = stack.enter_context(listener.accept()[0])
        for one in (ours, theirs):
            one.sendall(bytes(1000))
        control = stack.enter_context(socket.create_connection(listener.getsockname()))
        stack.enter_context(listener.accept()[0])
        process = SocketSearch(os.getpid(), 500)
        wait_until(lambda: (process.look() or True) and len(process.sockets) == 2)
        if os.stat("/proc/self/fd").st_size == 0:  # noqa: PTH116
            pytest.fail("this kernel does not tell how many descriptors a process has")
        scans = []
        real = socket_search._socket_inodes
        monkeypatch.setattr(socket_search, "_socket_inodes", lambda pid: scans.append(pid) or real(pid))
        assert not any(process.look() for _ in range(5 * socket_search.RESCAN_LOOKS))
        assert len(scans) == 5
        control.sendall(bytes(1000))
        wait_until(lambda: TcpCounters.of(control).acked_bytes >= 1000)
        process._looks = 0
        assert process.look() and len(process.sockets) == 3
        assert len(scans) == 5, "it was found without them"
        process.look(anew=True)
        assert len(scans) == 6


def test_a_replaced_socket_is_noticed_although_the_number_is_the_same(listener: socket.socket) -> None:
    first = socket.create_connection(listener.getsockname())
    first.sendall(bytes(1000))
    process = own(1000)
    wait_until(lambda: (process.look() or True) and len(process.sockets) == 1)
    [before] = process.sockets
    first.close()
    with socket.create_connection(listener.getsockname()) as second:
        second.sendall(bytes(1000))
        wait_until(lambda: (process.look() or True) and process.sockets not in ((), (before,)))
        [after] = process.sockets
        assert after.cookie != before.cookie


JOB_OF_ANOTHER_USER = """
import ctypes, os, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as ours:
    ours.sendall(bytes(1000))
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as an exec does: what it has in /proc is its user's
    print("sent", flush=True)
    sys.stdin.read()
"""
WITH_TWO_CAPABILITIES = """
import ctypes, os, sys
for capability in {*range(64)} - {12, 19}:  # CAP_NET_ADMIN, CAP_SYS_PTRACE
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP, as systemd does
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
LOOK = """
import os, sys, time
from hostd.kernel.sockets import ProcessSockets
pid = int(sys.argv[1])
try:
    os.listdir(f"/proc/{pid}/fd")
except PermissionError:
    print("no names")
process = ProcessSockets(pid, 1000)
for _ in range(1000):
    if process.look() or process.refused:
        break
    time.sleep(0.005)
print([one.remote_port for one in process.sockets], process.refused)
"""


def test_the_two_capabilities_of_the_service_find_sockets_of_every_user(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    command = [sys.executable, "-S", "-c", JOB_OF_ANOTHER_USER, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        assert next_line(job) == "sent"
        command = [sys.executable, "-c", WITH_TWO_CAPABILITIES, "-c", LOOK, str(job.pid)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        job.communicate()
    assert done.stdout.splitlines() == ["no names", f"[{port}] None"], done.stderr


def test_what_is_described_is_what_is_named(listener: socket.socket) -> None:
    with ExitStack() as stack:
        stack.enter_context(select.epoll()).register(listener)
        for one in socket.socketpair():
            stack.enter_context(one)
        assert sorted(socket_search._described(os.getpid())) == sorted(socket_search._named(os.getpid())) != []


def test_a_process_that_ended_has_no_sockets(wire: Wire) -> None:
    wire.sink()
    job = wire.send()
    process = ProcessSockets(job.pid)
    wait_until(process.look)
    job.end()
    assert process.look()
    assert process.sockets == () and process.refused is None
    assert not process.look()


def test_grouping_by_host() -> None:
    def to(remote: str) -> DataSocket:
        return DataSocket(1, 2, 3, "10.0.0.1", remote, 5, 6)

    host_of = {"10.0.0.1": "h0", "10.0.0.2": "h1", "10.0.1.2": "h1", "fd00::3": "h2"}
    found = by_host([to("10.0.0.2"), to("10.0.1.2"), to("fd00::3"), to("10.0.0.1"), to("8.8.8.8")], host_of, "h0")
    assert found == {"h1": (to("10.0.0.2"), to("10.0.1.2")), "h2": (to("fd00::3"),)}


def test_looking_is_cheap(listener: socket.socket) -> None:
    """A ratio within one run: an unchanged look against a full one, of a process with many descriptors."""
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        process = own()
        process.look()
        begun_ns = time.perf_counter_ns()
        for _ in range(socket_search.RESCAN_LOOKS - 2):
            process.look()
        cheap_ns = (time.perf_counter_ns() - begun_ns) / (socket_search.RESCAN_LOOKS - 2)
        begun_ns = time.perf_counter_ns()
        own().look()
        assert cheap_ns < (time.perf_counter_ns() - begun_ns) / 10

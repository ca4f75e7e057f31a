"""Namespaces: what enters them, what crosses them, and what is left when their owner is killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from bench.child_process import OWNER_VARIABLE, owner_mark
from bench.testbed.namespace import Namespace, connect

pytestmark = pytest.mark.root

A, B = IPv4Interface("10.0.0.1/24"), IPv4Interface("10.0.0.2/24")


def own_namespace() -> int:
    return Path("/proc/thread-self/ns/net").stat().st_ino


def inode(namespace: Namespace) -> int:
    return Path(namespace.path).stat().st_ino


def test_entering_changes_only_this_thread_and_only_meanwhile() -> None:
    before = own_namespace()
    with Namespace("a") as a, ThreadPoolExecutor(1) as pool:
        assert own_namespace() == pool.submit(own_namespace).result() == before
        with a.enter():
            assert own_namespace() == inode(a) != before
            assert pool.submit(own_namespace).result() == before
        assert own_namespace() == before


def test_bytes_cross_a_cable_between_two_namespaces() -> None:
    with Namespace("a") as a, Namespace("b") as b:
        connect(a, "a0", b, "b0", (A, B))
        with b.enter():
            listener = socket.create_server((str(B.ip), 0))
        with a.enter():
            sender = socket.create_connection(listener.getsockname(), timeout=10)
        receiver, (peer, _) = listener.accept()
        with listener, sender, receiver:
            sender.sendall(b"across")
            assert receiver.recv(100) == b"across"
            assert peer == str(A.ip)


def test_a_process_starts_in_the_namespace_and_is_marked() -> None:
    program = f"import os; print(os.stat('/proc/self/ns/net').st_ino, os.environ['{OWNER_VARIABLE}'])"
    with Namespace("a") as a:
        process = a.popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        found, mark = process.communicate(timeout=60)[0].split()
        assert int(found) == inode(a)
        assert mark == owner_mark(os.getpid())


OWNER = """
import os, sys, time
from bench.testbed.namespace import Namespace
namespace = Namespace("a")
child = namespace.popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, os.stat(namespace.path).st_ino, flush=True)
time.sleep(600)
"""


def test_a_killed_owner_leaves_neither_process_nor_namespace() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        child, namespace = map(int, owner.stdout.readline().split())
        mark = owner_mark(child)
        owner.send_signal(signal.SIGKILL)
    deadline_s = time.monotonic() + 30
    while alive(child, mark) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not alive(child, mark)
    assert namespace not in namespaces_of_processes()


def alive(pid: int, mark: str) -> bool:
    try:
        zombie = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return owner_mark(pid) == mark and not zombie
    except OSError:
        return False


def namespaces_of_processes() -> set[int]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add((process / "ns/net").stat().st_ino)
        except OSError:
            continue
    return found

"""Network namespaces without a name.

Law: a namespace lives as long as it is held by an open descriptor or a process in it. The process that made it has the
only descriptor, and every process that it starts there dies with it (child_process.py). So however it ends, SIGKILL
included, the kernel takes the namespace down, and with it its devices, routes, qdiscs and classes. Nothing is written
to /run.

A namespace belongs to a thread: `enter` moves the calling thread in and back, a process started meanwhile is in the
namespace, and a socket stays where it was made. Python 3.11 has no os.setns, hence ctypes.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv4Interface
from types import MappingProxyType
from typing import Any

from pyroute2 import IPRoute

from bench.child_process import start_child

CLONE_NEWNET = 0x4000_0000
_OWN = "/proc/thread-self/ns/net"

_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A new network namespace, with `lo` up. Close it, or use it as a context manager."""

    def __init__(self, name: str) -> None:
        self.name = name  # for messages; the kernel knows none
        with _restored_namespace():
            _checked(_libc.unshare(CLONE_NEWNET), f"no network namespace for {name}")
            self.fd = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
            self.netlink = IPRoute()  # a socket stays in the namespace it was made in
        self.netlink.link("set", index=1, state="up")

    def __enter__(self) -> "Namespace":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """The kernel removes the namespace once no process is left in it."""
        if self.fd >= 0:
            self.netlink.close()
            os.close(self.fd)
            self.fd = -1

    @property
    def path(self) -> str:
        """For other processes to open and setns into, as long as this one lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @contextmanager
    def enter(self) -> Iterator[None]:
        """The calling thread is in the namespace until the block ends. Do not await inside."""
        with _restored_namespace():
            _checked(_libc.setns(self.fd, CLONE_NEWNET), f"cannot enter {self.name}")
            yield

    def popen(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, **options: Any
    ) -> "subprocess.Popen[Any]":
        """A process in the namespace that is killed when the calling thread ends: call it from the main thread."""
        with self.enter():
            return start_child(argv, env, **options)

    def index_of(self, ifname: str) -> int:
        """The interface's number, by which netlink knows it."""
        return int(self.netlink.link_lookup(ifname=ifname)[0])


def connect(
    a: Namespace,
    a_ifname: str,
    b: Namespace,
    b_ifname: str,
    addresses: tuple[IPv4Interface | None, IPv4Interface | None] = (None, None),
    attributes: Mapping[str, int] = MappingProxyType({}),
) -> tuple[int, int]:
    """A cable: a veth pair between two namespaces, both ends up; `attributes`, such as mtu, are for both ends.

    Returns the interface numbers.
    """
    a.netlink.link(
        "add", kind="veth", ifname=a_ifname, peer={"ifname": b_ifname, "net_ns_fd": b.fd, **attributes}, **attributes
    )
    ends = (a, a.index_of(a_ifname)), (b, b.index_of(b_ifname))
    for (namespace, index), address in zip(ends, addresses, strict=True):
        if address is not None:
            namespace.netlink.addr("add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen)
        namespace.netlink.link("set", index=index, state="up")
    return ends[0][1], ends[1][1]


@contextmanager
def _restored_namespace() -> Iterator[None]:
    """After the block the calling thread is in the namespace that it was in before."""
    before = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        try:
            _checked(_libc.setns(before, CLONE_NEWNET), "cannot go back to the namespace from before")
        finally:
            with suppress(OSError):
                os.close(before)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")

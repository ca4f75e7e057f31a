"""Which TCP sockets of a process carry a job's data, and to which host.

    /proc/PID/fd  ──▶ descriptors whose inode is new ──▶ duplicated once: protocol, addresses, cookie
                                                     ──▶ remote address ──▶ host ──▶ flow (job, this host, that host)

The duplicate (pidfd.py) is the socket itself, so it does not matter in which network namespace the process lives, and
no other process's sockets are read (a host's /proc/net/tcp may have thousands of lines).

Where the names in /proc/PID/fd are refused, fdinfo.py has the same numbers and inodes. Sockets alone are duplicated:
closing a duplicate of a file in the network can wait for the file's server.

Looking costs a stat while nothing changes: since Linux 6.2 the size of /proc/PID/fd is the number of open
descriptors. A socket replaced by another between two looks leaves the number as it was, so every RESCAN_LOOKS-th
look reads all names anyway, and so does a look after a duplication failed, or with a kernel that says 0. Look about
once a second.

A job also has control connections (rendezvous, heartbeats), and NCCL has one connection for each direction. A socket
that has sent less than LEAST_DATA_BYTES is asked again at every look until it has. If it has received as much instead,
there is nothing to limit at this end, but its remote host is one that feeds the job.

A socket's network namespace need not be that of a process that holds it. A user without any right can make one, inside
a user namespace, and give itself every address there; what is sent within it never leaves the host. Such a network is
*private*: the user namespace that owns it is not hostd's own. Networks of containers that root has set up belong to
hostd's.
"""

import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

from hostd.kernel.fdinfo import described, descriptors
from hostd.kernel.pidfd import SocketGone, cookie_of, duplicated_socket

RESCAN_LOOKS = 8
LEAST_DATA_BYTES = 256 * 1024
MOST_SOCKETS = 512  # of a process; more are left to TCP
_TCP_INFO_BYTES, _STATE_AT, _ACKED_AND_RECEIVED_AT = 136, 0, 120
_TCP_LISTEN = 10
_SO_NETNS_COOKIE, _COOKIE_BYTES = 71, 8
_SIOCGSKNS, _NS_GET_USERNS = 0x894C, 0xB701


_Name = tuple[int, int]  # of a socket in its process: descriptor and inode
Found = tuple[int, int, int, str, str, int, int, bool, int]  # the fields of DataSocket


class SocketSearch:
    """In one process; `look` as often as wanted. Made by a process that may be kept waiting (calls.py)."""

    def __init__(self, pid: int, least_bytes: int = LEAST_DATA_BYTES) -> None:
        self.pid = pid
        self.sockets: tuple[Found, ...] = ()  # those that send
        self.receiving: tuple[Found, ...] = ()  # those that only receive
        self.refused: str | None = None  # why the process cannot be looked into
        self._least_bytes = least_bytes
        self._descriptors = -1
        self._looks = 0
        self._settled: dict[_Name, Found | None] = {}  # None: carries no data of the job
        self._pending: dict[_Name, Found | None] = {}  # have sent too little; None: and received too little

    def look(self, anew: bool = False) -> bool:
        """Whether the sockets that send have changed; `anew` reads all names. A process that has ended has none."""
        self._looks += 1
        before = self.sockets
        try:
            # Path.stat is three times as slow, and this runs for every process.
            descriptors = os.stat(f"/proc/{self.pid}/fd").st_size  # noqa: PTH116
            same = descriptors == self._descriptors and descriptors > 0 and not anew
            if same and self._looks % RESCAN_LOOKS:
                if not self._pending:
                    return False
                self._sort(list(self._pending))
            else:
                self._descriptors = descriptors
                names = _socket_inodes(self.pid)[:MOST_SOCKETS]
                self._settled = {name: self._settled[name] for name in names if name in self._settled}
                self._sort([name for name in names if name not in self._settled])
            self.sockets, self.receiving = _present(self._settled), _present(self._pending)
            self.refused = None
        except OSError as error:
            self.sockets = self.receiving = ()
            if isinstance(error, PermissionError):
                self.refused = str(error)
        return self.sockets != before

    def _sort(self, names: list[_Name]) -> None:
        """Asks these; no other socket is pending afterwards."""
        self._pending = {}
        namespace = os.stat(f"/proc/{self.pid}/ns/net").st_ino  # noqa: PTH116
        for name in names:
            settled, one = self._ask(name[0], namespace)
            (self._settled if settled else self._pending)[name] = one

    def _ask(self, fd: int, namespace: int) -> tuple[bool, Found | None]:
        """Whether the answer stands, and the socket if it carries data."""
        try:
            with duplicated_socket(self.pid, fd) as theirs:
                if theirs.proto != socket.IPPROTO_TCP:
                    return True, None
                info = theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
                if info[_STATE_AT] == _TCP_LISTEN:
                    return True, None
                acked_bytes, received_bytes = struct.unpack_from("=QQ", info, _ACKED_AND_RECEIVED_AT)
                if max(acked_bytes, received_bytes) < self._least_bytes:
                    return False, None
                (local, local_port, *_), (remote, port, *_) = theirs.getsockname(), theirs.getpeername()
                network = network_of(theirs, namespace)
                one = (self.pid, fd, cookie_of(theirs), _plain(local), _plain(remote), port, *network, local_port)
                return acked_bytes >= self._least_bytes, one
        except (SocketGone, OSError) as error:
            if isinstance(error, PermissionError):
                raise
            return False, None  # closed or not connected at this moment


def _present(found: Mapping[_Name, Found | None]) -> tuple[Found, ...]:
    return tuple(one for _, one in sorted(found.items()) if one is not None)


def _socket_inodes(pid: int) -> list[_Name]:
    try:
        return sorted(_named(pid))
    except PermissionError:
        return sorted(_described(pid))


def _named(pid: int) -> list[_Name]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            link = os.readlink(entry)  # noqa: PTH115
        except FileNotFoundError:
            continue  # closed meanwhile
        if link.startswith("socket:["):
            found.append((int(entry.name), int(link[8:-1])))
    return found


def _described(pid: int) -> list[_Name]:
    sockets = _mount_of_sockets()
    return [(one.fd, one.inode) for one in descriptors(pid) if one.mount == sockets]


@cache
def _mount_of_sockets() -> int:
    """All sockets are in one file system of the kernel's own."""
    with socket.socket() as own:
        return described(os.getpid(), own.fileno()).mount


def _plain(address: str) -> str:
    """Without a zone, and IPv4 as IPv4 where it is mapped into IPv6."""
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return str(parsed)


# ---- Networks ----


class Network(NamedTuple):
    inode: int  # of the namespace
    private: bool


def network_of(theirs: socket.SocketType, of_process: int) -> Network:
    """`of_process`: the namespace of a process that has the socket, for kernels and rights that tell no more."""
    try:
        if _cookie(theirs) == _own_cookie():
            return Network(own_namespace(), private=False)
        namespace = fcntl.ioctl(theirs.fileno(), _SIOCGSKNS)
    except OSError:
        return Network(of_process, private=False)
    try:
        return Network(os.fstat(namespace).st_ino, private=_is_private(namespace))
    finally:
        os.close(namespace)


def own_namespace() -> int:
    """The network namespace of the calling thread."""
    return os.stat("/proc/thread-self/ns/net").st_ino  # noqa: PTH116


def _is_private(namespace: int) -> bool:
    try:
        owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    except OSError:  # above hostd's own
        return False
    try:
        return os.fstat(owner).st_ino != os.stat("/proc/thread-self/ns/user").st_ino  # noqa: PTH116
    finally:
        os.close(owner)


def _cookie(one: socket.SocketType) -> bytes:
    return one.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, _COOKIE_BYTES)


def _own_cookie() -> bytes:
    with socket.socket(socket.AF_UNIX) as own:
        return _cookie(own)

"""Which TCP sockets of a process carry a job's data, and to which host.

    /proc/PID/fd  ──▶ descriptors whose inode is new ──▶ borrowed once: protocol, addresses, cookie
                                                     ──▶ remote address ──▶ host ──▶ flow (job, this host, that host)

Borrowing asks the socket itself, so it does not matter in which network namespace the process lives, and nobody
else's sockets are read (a host's /proc/net/tcp may have thousands of lines).

Looking costs a stat while nothing changes: since Linux 6.2 the size of /proc/PID/fd is the number of open
descriptors. A socket replaced by another between two looks leaves the number as it was, so every RESCAN_LOOKS-th
look reads all names anyway; so does a kernel that says 0. Look when a borrowing failed, and about once a second.

A job also has control connections (rendezvous, heartbeats). One that has sent less than LEAST_DATA_BYTES carries no
data yet; it is asked again at every look until it does.
"""

import os
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from hostd.borrow import Gone, borrowed, cookie_of

RESCAN_LOOKS = 8
LEAST_DATA_BYTES = 256 * 1024
_TCP_INFO_BYTES, _STATE_AT, _ACKED_AT = 128, 0, 120
_TCP_LISTEN = 10


@dataclass(frozen=True, slots=True)
class DataSocket:
    """One end of a connection, in a process of a job."""

    pid: int
    fd: int
    cookie: int
    local: str  # addresses as text, IPv4 also where it is mapped into IPv6
    remote: str
    remote_port: int
    namespace: int  # inode of the network namespace the process lives in


class ProcessSockets:
    """The data sockets of one process; `look` as often as wanted."""

    def __init__(self, pid: int, least_bytes: int = LEAST_DATA_BYTES) -> None:
        self.pid = pid
        self.sockets: tuple[DataSocket, ...] = ()
        self.refused: str | None = None  # why the process cannot be looked into
        self._least_bytes = least_bytes
        self._descriptors = -1
        self._looks = 0
        self._known: dict[tuple[int, int], DataSocket | None] = {}  # by (fd, inode); None: nothing for us
        self._pending = False  # connections that carry no data yet

    def look(self) -> bool:
        """Whether the data sockets have changed. A process that has ended has none."""
        self._looks += 1
        try:
            # Path.stat is three times as slow, and this runs for every process.
            descriptors = os.stat(f"/proc/{self.pid}/fd").st_size  # noqa: PTH116
            same = descriptors == self._descriptors and descriptors > 0
            if same and not self._pending and self._looks % RESCAN_LOOKS:
                return False
            self._descriptors = descriptors
            found = self._scan()
            self.refused = None
        except PermissionError as error:
            found, self.refused = (), str(error)
        except OSError:
            found = ()
        changed = found != self.sockets
        self.sockets = found
        return changed

    def _scan(self) -> tuple[DataSocket, ...]:
        known: dict[tuple[int, int], DataSocket | None] = {}
        self._pending = False
        namespace = os.stat(f"/proc/{self.pid}/ns/net").st_ino  # noqa: PTH116
        for fd, inode in _socket_inodes(self.pid):
            if (fd, inode) in self._known:
                known[fd, inode] = self._known[fd, inode]
                continue
            verdict = self._ask(fd, namespace)
            if verdict is _NOT_YET:
                self._pending = True
            else:
                known[fd, inode] = verdict
        self._known = known
        return tuple(one for one in known.values() if one is not None)

    def _ask(self, fd: int, namespace: int) -> "DataSocket | None":
        try:
            with borrowed(self.pid, fd) as theirs:
                if theirs.proto != socket.IPPROTO_TCP:
                    return None
                info = theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
                if info[_STATE_AT] == _TCP_LISTEN:
                    return None
                [acked_bytes] = struct.unpack_from("=Q", info, _ACKED_AT)
                if acked_bytes < self._least_bytes:
                    return _NOT_YET
                local, (remote, port, *_) = theirs.getsockname()[0], theirs.getpeername()
                return DataSocket(self.pid, fd, cookie_of(theirs), _plain(local), _plain(remote), port, namespace)
        except (Gone, OSError) as error:
            if isinstance(error, PermissionError):
                raise
            return _NOT_YET  # closed or not connected at this moment


_NOT_YET = DataSocket(0, 0, 0, "", "", 0, 0)


def by_host(
    sockets: Iterable[DataSocket], host_of: Mapping[str, str], this_host: str
) -> dict[str, tuple[DataSocket, ...]]:
    """The sockets by the host they lead to; those within this host or to hosts unknown are nobody's flow."""
    found: dict[str, list[DataSocket]] = {}
    for one in sockets:
        target = host_of.get(one.remote)
        if target is not None and target != this_host:
            found.setdefault(target, []).append(one)
    return {target: tuple(them) for target, them in found.items()}


def own_namespace() -> int:
    """The network namespace of the calling thread, as in DataSocket."""
    return os.stat("/proc/thread-self/ns/net").st_ino  # noqa: PTH116


def _socket_inodes(pid: int) -> list[tuple[int, int]]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            link = os.readlink(entry)  # noqa: PTH115
        except FileNotFoundError:
            continue  # closed meanwhile
        if link.startswith("socket:["):
            found.append((int(entry.name), int(link[8:-1])))
    return sorted(found)


def _plain(address: str) -> str:
    """Without a zone, and IPv4 as IPv4 where it is mapped into IPv6."""
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return str(parsed)

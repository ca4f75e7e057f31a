"""A job's data sockets: one end of a connection each, in a process of the job.

How they are found is socket_search.py's; that touches sockets of jobs, and a call on one may never return. So it runs
where calls.py says, and what is known here is what was last answered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from hostd.kernel import calls
from hostd.kernel.pidfd import SocketGone
from hostd.kernel.socket_search import LEAST_DATA_BYTES, own_namespace

__all__ = ["DataSocket", "ProcessSockets", "by_host", "own_namespace"]


@dataclass(frozen=True, slots=True)
class DataSocket:
    """One end of a connection, in a process of a job."""

    pid: int
    fd: int
    cookie: int
    local: str  # addresses as text, IPv4 also where it is mapped into IPv6
    remote: str
    remote_port: int
    namespace: int  # inode of its network namespace
    private: bool = False  # a user has made that (socket_search.py)
    local_port: int = 0


_searches = count(1)


class ProcessSockets:
    """The data sockets of one process; `look` as often as wanted, about once a second."""

    def __init__(self, pid: int, least_bytes: int = LEAST_DATA_BYTES) -> None:
        self.pid = pid
        self.sockets: tuple[DataSocket, ...] = ()  # those that send
        self.receiving: tuple[DataSocket, ...] = ()  # those that only receive
        self.refused: str | None = None  # why the process cannot be looked into
        self._least_bytes = least_bytes
        self._search, self._version = next(_searches), 0

    def look_call(self, anew: bool = False) -> calls.Call:
        return ("look", self.pid, self._search, self._version, self._least_bytes, anew)

    def look(self, anew: bool = False) -> bool:
        """Whether the sockets that send have changed; `anew` reads all names. A process that has ended has none."""
        [answer] = calls.perform([self.look_call(anew)])  # one that comes late is had by the next look
        before = self.sockets
        if isinstance(answer, calls.Held):
            self.refused = str(answer)
        if answer is None or isinstance(answer, OSError):
            return False  # they are what they were, as far as is known
        if isinstance(answer, SocketGone):
            answer = (0, (), (), None)
        self._version, sending, receiving, self.refused = answer
        self.sockets = tuple(DataSocket(*one) for one in sending)
        self.receiving = tuple(DataSocket(*one) for one in receiving)
        return self.sockets != before


def by_host(
    sockets: Iterable[DataSocket], host_of: Mapping[str, str], this_host: str
) -> dict[str, tuple[DataSocket, ...]]:
    """The sockets by the host they lead to. Of no flow are those within this host or to unknown hosts, and those in
    another network namespace, but for one that root has made and an address in it that is known as this host's."""
    found: dict[str, list[DataSocket]] = {}
    here = own_namespace()
    for one in sockets:
        target = host_of.get(one.remote)
        mapped = one.namespace == here or (not one.private and host_of.get(one.local) == this_host)
        if target is not None and target != this_host and mapped:
            found.setdefault(target, []).append(one)
    return {target: tuple(them) for target, them in found.items()}

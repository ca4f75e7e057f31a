"""A process's control connections to a host to which its data gets lost.

Requests and answers, as of a parameter server, are single packets on connections that carry too little to tell from
their own counters whether the path loses any. But every chunk of data waits for its answer, and an answer that is lost
is sent again after 200 ms. So where the data's packets get lost, the control connections beside them get a short wait,
too.
"""

from hostd.enforce.transport import TCP_RTO_MIN_US, shortens
from hostd.kernel.calls import set_option
from hostd.kernel.pidfd import SocketGone
from hostd.kernel.sockets import DataSocket, ProcessSockets
from hostd.safety.undo import socket_undo
from hostd.safety.undo_log import UndoLog

LOOK_EVERY = 10  # calls; connections come and go more rarely than packets


class ControlConnections:
    """Beside one socket that carries data: all of its process that lead to the same address."""

    def __init__(self, undo_log: UndoLog, pid: int, cookie: int, wait: bytes) -> None:
        self._undo_log, self._pid, self._cookie, self._wait = undo_log, pid, cookie, wait
        self._process = ProcessSockets(pid, least_bytes=0)
        self._calls = 0
        self._changed: dict[int, str] = {}  # cookie → key in the undo log

    def shorten(self) -> None:
        """Call while packets get lost; raises OSError."""
        self._calls += 1
        if self._calls % LOOK_EVERY != 1:
            return
        self._process.look()
        remotes = {one.remote for one in self._process.sockets if one.cookie == self._cookie}
        there = {one.cookie: one for one in self._process.sockets if one.remote in remotes}
        if not there:
            return  # the process has ended, or cannot be looked into at this moment
        # Closed, as far as can be seen: a connection that is open nevertheless is as it was.
        self._undo_log.take_back([self._changed.pop(cookie) for cookie in self._changed.keys() - there.keys()])
        for cookie in there.keys() - self._changed.keys() - {self._cookie}:
            try:
                self._shorten(there[cookie])
            except SocketGone:
                continue

    def restore(self) -> dict[str, str]:
        """They are as they were; returns the problems by key."""
        problems = self._undo_log.take_back(self._changed.values())
        self._changed.clear()
        return problems

    def _shorten(self, one: DataSocket) -> None:
        if shortens(one, self._wait):
            undo = socket_undo(one, *TCP_RTO_MIN_US)
            key = f"control connection beside socket {self._cookie}: socket {one.cookie}"
            self._undo_log.record({key: undo})
            self._changed[one.cookie] = key
            set_option(one, *TCP_RTO_MIN_US, self._wait)

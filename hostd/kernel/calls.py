"""System calls on objects of jobs: which there are, and which process makes them.

    perform(calls) ──▶ here         a worker's own; tests and benchmarks
                   ──▶ workers      of hostd, its guardian and `paceline release` (hostd/workers)

Law: the process that keeps the lease or gives it back makes none of these calls. Any of them may never return: a job
that sends from a page that does not arrive keeps its socket's lock, and TCP_INFO waits for it in a sleep that no signal
ends; closing the last descriptor of a socket with SO_LINGER takes as long as the job has said; /proc/PID/cmdline waits
for the process's memory.

A call is a tuple: kind, pid (or ~uid, where the process is not known yet), and what that kind takes. Its answer is a
value, or the SocketGone or OSError that it came to; NotAnswered where the process that makes it is kept waiting. Every
call can be made again.
"""

import errno
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from hostd.congestion.storage import store
from hostd.kernel.counter_reader import CounterReader
from hostd.kernel.pidfd import SocketGone, duplicate_descriptor, duplicate_socket
from hostd.kernel.process_search import search
from hostd.kernel.segment_search import duplicate_of
from hostd.kernel.socket_search import SocketSearch
from hostd.kernel.tcp_info import TcpCounters

Call = tuple[Any, ...]
Answer = Any
MapReach = tuple[int, int, int]  # of a BPF map: the process that has it, its descriptor there, and since when

# How long an answer is waited for: by a look that comes again in 2 ms; by what would have to wait for a second if it
# failed; by a release, in all.
HASTY_S, PATIENT_S, RELEASE_S = 0.002, 0.02, 1.0
EVERY_USER = ~(1 << 32)  # instead of a pid
LATE = "not answered yet"
_UNUSED_S = 60.0


class NotAnswered(OSError):
    """Not yet, or never."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.ETIMEDOUT, reason)

    def __str__(self) -> str:
        return str(self.strerror)


class Held(NotAnswered):
    """A call on an object of this process does not return: hostd leaves the process alone until it does."""


class Reach(Protocol):
    """A socket, by a descriptor of a process."""

    @property
    def pid(self) -> int: ...
    @property
    def fd(self) -> int: ...
    @property
    def cookie(self) -> int: ...


class Performer(Protocol):
    def perform(self, calls: Sequence[Call], wait_s: float) -> list[Answer]:
        """In the order of the calls."""

    def perform_all(self, calls: Sequence[Call], within_s: float) -> list[Answer]:
        """The same, whatever it takes: a call that does not return costs the calls on other processes no answer."""


class Here:
    """Makes the calls itself, and waits as long as they take."""

    def __init__(self) -> None:
        self._searches: dict[int, _Search] = {}
        self._counters = CounterReader()
        self._map: tuple[int, MapReach] | None = None  # a descriptor of ours for it
        self._kinds: dict[str, Callable[..., Answer]] = {
            "info": self._counters.read,
            "get": _get,
            "set": _set,
            "weigh": self._weigh,
            "look": self._look,
            "open": _open,
            "search": _search,
        }

    def perform(self, calls: Sequence[Call], wait_s: float = 0.0) -> list[Answer]:
        answers = [self.answer(call) for call in calls]
        self._counters.close()
        return answers

    perform_all = perform

    def answer(self, call: Call) -> Answer:
        kind, *arguments = call
        try:
            return self._kinds[kind](*arguments)
        except (SocketGone, OSError) as error:
            return error

    def _look(self, pid: int, number: int, version: int, least_bytes: int, anew: bool) -> Answer:
        """None: as in that version."""
        if (search := self._searches.get(number)) is None:
            self._forget_unused()
            search = self._searches[number] = _Search(pid, least_bytes)
        return search.look(version, anew)

    def _weigh(self, pid: int, fd: int, cookie: int, control: bytes, told: bytes, where: MapReach) -> None:
        """Tells a socket's congestion control, which it gets first, if one is named."""
        own_fd = self._told(where)
        theirs = duplicate_socket(pid, fd, cookie)
        try:
            if control:
                theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
            store(own_fd, theirs.fileno(), told)
        finally:
            theirs.close()

    def _told(self, where: MapReach) -> int:
        if self._map is not None and self._map[1] == where:
            return self._map[0]
        owner, descriptor, _ = where
        own_fd = duplicate_descriptor(owner, descriptor)
        if self._map is not None:
            os.close(self._map[0])
        self._map = (own_fd, where)
        return own_fd

    def _forget_unused(self) -> None:
        now_s = time.monotonic()
        self._searches = {number: one for number, one in self._searches.items() if now_s - one.used_s < _UNUSED_S}


class _Search:
    """Of a ProcessSockets, which knows a version of what was found."""

    def __init__(self, pid: int, least_bytes: int) -> None:
        self.used_s = time.monotonic()
        self._search = SocketSearch(pid, least_bytes)
        self._found: tuple[Answer, ...] = ((), (), None)
        self._version = 0

    def look(self, version: int, anew: bool) -> Answer:
        self.used_s = time.monotonic()
        search = self._search
        search.look(anew)
        found = (search.sockets, search.receiving, search.refused)
        if found != self._found:
            self._found = found
            self._version = time.monotonic_ns()  # no other worker's
        return None if version == self._version else (self._version, *found)


def _get(pid: int, fd: int, cookie: int, level: int, option: int, size: int) -> bytes:
    theirs = duplicate_socket(pid, fd, cookie)
    try:
        return theirs.getsockopt(level, option, size)
    finally:
        theirs.close()


def _set(pid: int, fd: int, cookie: int, level: int, option: int, value: bytes) -> None:
    theirs = duplicate_socket(pid, fd, cookie)
    try:
        theirs.setsockopt(level, option, value)
    finally:
        theirs.close()


def _open(_user: int, pid: int, start_ticks: int, device: int, inode: int) -> int:
    return duplicate_of(pid, start_ticks, device, inode)


def _search(_user: int, *arguments: Any) -> dict[str, list[int]]:
    return search(*arguments)


# ---- Which process makes them, for this one ----

_performer: Performer = Here()


@contextmanager
def made_by(performer: Performer) -> Iterator[None]:
    global _performer
    before, _performer = _performer, performer
    try:
        yield
    finally:
        _performer = before


def made_here() -> bool:
    return isinstance(_performer, Here)


_ahead: dict[Call, Answer] = {}


def perform(calls: Sequence[Call], wait_s: float = HASTY_S) -> list[Answer]:
    if _ahead:
        found = [_ahead[call] for call in calls if call in _ahead]
        if len(found) == len(calls):
            return found
    return _performer.perform(calls, wait_s) if calls else []


class performed_ahead:
    """All of these at once, for each `perform` within: asking costs more than answering. (A generator would take as
    long again for itself.)"""

    def __init__(self, calls: Sequence[Call], wait_s: float = HASTY_S) -> None:
        _ahead.update(zip(calls, perform(calls, wait_s), strict=True))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        _ahead.clear()


def perform_all(calls: Sequence[Call], within_s: float = RELEASE_S) -> list[Answer]:
    return _performer.perform_all(calls, within_s) if calls else []


Counters = TcpCounters | SocketGone | OSError


def counter_calls(sockets: Iterable[Reach]) -> list[Call]:
    return [("info", one.pid, one.fd, one.cookie) for one in sockets]


def counters_of(sockets: Iterable[Reach]) -> list[Counters]:
    return [TcpCounters._make(one) if isinstance(one, tuple) else one for one in perform(counter_calls(sockets))]


def get_option(one: Reach, level: int, option: int, size: int) -> bytes:
    """Raises SocketGone or OSError."""
    [answer] = perform([("get", one.pid, one.fd, one.cookie, level, option, size)], PATIENT_S)
    if isinstance(answer, (SocketGone, OSError)):
        raise answer
    return bytes(answer)


def set_option(one: Reach, level: int, option: int, value: bytes) -> None:
    """Raises SocketGone or OSError."""
    [answer] = perform([("set", one.pid, one.fd, one.cookie, level, option, value)], PATIENT_S)
    if isinstance(answer, (SocketGone, OSError)):
        raise answer


def uid_of(pid: int) -> int:
    """Of the process's entry in /proc, which says so at once; -1 when it has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116
    except OSError:
        return -1

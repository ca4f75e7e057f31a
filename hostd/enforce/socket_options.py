"""Options of jobs' sockets that we change. Law: the original is in the journal before the first change.

A socket is reached through a descriptor of a process, and may have several: copies, and those that forked processes
inherited. When one descriptor is closed and another remains, the original is recorded for the other before it is
forgotten for the first: hold what came before giving back what left.
"""

import socket
from collections.abc import Callable, Iterable
from dataclasses import replace

from hostd.enforce.control_connections import Companions
from hostd.enforce.transport import TCP_RTO_MIN_US, Option, Transport, shortens
from hostd.kernel.pidfd import Gone, borrowed
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from hostd.safety.undo import SocketUndo, socket_undo
from hostd.safety.undo_log import Journal
from paceline.flowcore.detect.losses import Losses


class HeldSockets:
    """Sets these options on sockets of jobs. What could not be done is returned as lines, never raised."""

    def __init__(self, journal: Journal, option: Option, transport: Transport) -> None:
        """`option` will be set as we go; the transport's are kept here."""
        self._journal = journal
        self._always = transport.always()
        self._where_lossy = {by_itself: transport.where_lossy(by_itself) for by_itself in (False, True)}
        self._options = (option, *self._always)
        self._held: dict[int, dict[str, SocketUndo]] = {}  # what is in the journal, by cookie and key
        self._losses: dict[int, Losses] = {}  # by cookie
        self._by_itself: dict[int, bool] = {}
        self._companions: dict[int, Companions] = {}  # of those that lose packets

    def hold(self, sockets: Iterable[DataSocket], by_itself: bool) -> tuple[list[DataSocket], list[str]]:
        """Puts the options on record as they are now; returns the sockets that may be changed from now on."""
        noted: dict[DataSocket, dict[str, SocketUndo]] = {}

        def note(one: DataSocket, theirs: socket.socket) -> None:
            if (before := self._held.get(one.cookie)) is not None:  # what it is now we made it
                undos = [replace(undo, pid=one.pid, fd=one.fd) for undo in before.values()]
            else:
                undos = [socket_undo(one.pid, one.fd, one.cookie, theirs, *option) for option in self._options]
            noted[one] = {_key(undo): undo for undo in undos}

        troubles = _each(sockets, note)
        fresh = {key: undo for undos in noted.values() for key, undo in undos.items()}
        over = [key for one in noted for key in self._held.get(one.cookie, ()) if key not in fresh]
        try:
            self._journal.record(fresh)
            self._journal.forget(over)
        except OSError as error:
            return [], [*troubles, f"cannot write the journal: {error}"]
        self._held |= {one.cookie: undos for one, undos in noted.items()}
        self._by_itself |= {one.cookie: by_itself for one in noted}
        held = list(noted)
        for option, value in self._always.items():
            troubles += self.set(held, option, value)
        return held, troubles

    def set(self, sockets: Iterable[DataSocket], option: Option, value: bytes) -> list[str]:
        """Of sockets that are held."""
        return _each(sockets, lambda _, theirs: theirs.setsockopt(*option, value))

    def watch_losses(self) -> list[str]:
        """Who loses packets notices soon; who does not any more is as he was."""
        troubles = []
        for cookie in self._held:
            try:
                troubles += self._judge(cookie)
            except Gone:
                continue
            except OSError as error:
                troubles.append(str(error))
        return troubles

    def give_back(self, sockets: Iterable[DataSocket]) -> list[str]:
        """They are as they were; closed ones are forgotten, and those held through another descriptor stay held."""
        leaving = [one for one in sockets if self._reaches(one)]
        for one in leaving:
            self._losses.pop(one.cookie, None)
            self._by_itself.pop(one.cookie, None)
        problems = self._leave_companions(one.cookie for one in leaving)
        keys = [key for one in leaving for key in self._held.pop(one.cookie, ())]
        return [f"{key}: {problem}" for key, problem in (problems | self._journal.take_back(keys)).items()]

    def _judge(self, cookie: int) -> list[str]:
        """Most sockets never lose much: on record only while it is changed."""
        undos, wanted = self._held[cookie], self._where_lossy[self._by_itself[cookie]]
        if not wanted:
            return []
        keys = {(undo.level, undo.option): key for key, undo in undos.items()}
        changed = {option: key for option, key in keys.items() if option in wanted}
        reach = next(iter(undos.values()))
        with borrowed(reach.pid, reach.fd, cookie) as theirs:
            counters = TcpCounters.of(theirs)
            losses = self._losses.setdefault(cookie, Losses())
            lossy = losses.look(counters.acked_bytes, counters.retransmitted_bytes)
            for option, value in wanted.items() if lossy else ():
                # Short already as another's companion, it may cease to be that.
                if option not in changed and (option != TCP_RTO_MIN_US or shortens(theirs, value)):
                    undo = socket_undo(reach.pid, reach.fd, cookie, theirs, *option)
                    self._journal.record({_key(undo): undo})
                    undos[_key(undo)] = undo
                    theirs.setsockopt(*option, value)
        if lossy:
            self._help_companions(cookie, reach.pid, wanted)
        if lossy or not (changed or cookie in self._companions):
            return []
        problems = self._journal.take_back(changed.values())
        for key in {*changed.values()} - problems.keys():
            del undos[key]
        problems |= self._leave_companions([cookie])
        return [f"{key}: {problem}" for key, problem in problems.items()]

    def _help_companions(self, cookie: int, pid: int, wanted: dict[Option, bytes]) -> None:
        if (wait := wanted.get(TCP_RTO_MIN_US)) is None:
            return
        if cookie not in self._companions:
            self._companions[cookie] = Companions(self._journal, pid, cookie, wait)
        self._companions[cookie].help()

    def _leave_companions(self, cookies: Iterable[int]) -> dict[str, str]:
        problems = {}
        for cookie in cookies:
            if (companions := self._companions.pop(cookie, None)) is not None:
                problems |= companions.leave()
        return problems

    def _reaches(self, one: DataSocket) -> bool:
        """Whether it is this descriptor through which we hold the socket."""
        return any((undo.pid, undo.fd) == (one.pid, one.fd) for undo in self._held.get(one.cookie, {}).values())


def _each(sockets: Iterable[DataSocket], use: Callable[[DataSocket, socket.socket], object]) -> list[str]:
    troubles = []
    for one in sockets:
        try:
            with borrowed(one.pid, one.fd, one.cookie) as theirs:
                use(one, theirs)
        except (Gone, OSError) as error:
            troubles.append(str(error))
    return troubles


def _key(undo: SocketUndo) -> str:
    return f"socket {undo.cookie} of {undo.pid}/{undo.fd} option {undo.level}/{undo.option}"


SO_PRIORITY: Option = (socket.SOL_SOCKET, 12)
SO_MAX_PACING_RATE: Option = (socket.SOL_SOCKET, 47)

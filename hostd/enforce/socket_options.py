"""Options of jobs' sockets that hostd changes. Law: the original is in the undo log before the first change.

A socket is reached through a descriptor of a process, and may have several: copies, and those that forked processes
inherited. When one descriptor is closed and another remains, the original is recorded for the other before it is
forgotten for the first: `record` what came before `restore` of what left.
"""

import socket
from collections.abc import Callable, Iterable
from dataclasses import replace

from hostd.enforce.control_connections import ControlConnections
from hostd.enforce.errors import EnforcementError, ErrorKind, not_restored
from hostd.enforce.transport import TCP_RTO_MIN_US, Option, Transport, shortens
from hostd.kernel.pidfd import SocketGone, duplicated_socket
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from hostd.safety.undo import SocketUndo, socket_undo
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.detect.losses import Losses

SO_PRIORITY: Option = (socket.SOL_SOCKET, 12)
SO_MAX_PACING_RATE: Option = (socket.SOL_SOCKET, 47)


class SocketOptions:
    """Sets these options on sockets of jobs. What could not be done is returned, never raised."""

    def __init__(self, undo_log: UndoLog, option: Option, transport: Transport) -> None:
        """`option` is the one that `set` will be called with; the transport's are set here."""
        self._undo_log = undo_log
        self._always = transport.always()
        self._where_lossy = {by_itself: transport.where_lossy(by_itself) for by_itself in (False, True)}
        self._options = (option, *self._always)
        self._recorded: dict[int, dict[str, SocketUndo]] = {}  # what is in the undo log, by cookie and key
        self._losses: dict[int, Losses] = {}  # by cookie
        self._by_itself: dict[int, bool] = {}
        self._control_connections: dict[int, ControlConnections] = {}  # beside sockets that lose packets

    def record(self, sockets: Iterable[DataSocket], by_itself: bool) -> tuple[list[DataSocket], list[EnforcementError]]:
        """Puts the options on record as they are now; returns the sockets that may be changed from now on."""
        noted: dict[DataSocket, dict[str, SocketUndo]] = {}

        def note(one: DataSocket, theirs: socket.SocketType) -> None:
            if (before := self._recorded.get(one.cookie)) is not None:  # what it is now hostd made it
                undos = [replace(undo, pid=one.pid, fd=one.fd) for undo in before.values()]
            else:
                undos = [socket_undo(one.pid, one.fd, one.cookie, theirs, *option) for option in self._options]
            noted[one] = {_key(undo): undo for undo in undos}

        errors = _each(sockets, note)
        fresh = {key: undo for undos in noted.values() for key, undo in undos.items()}
        over = [key for one in noted for key in self._recorded.get(one.cookie, ()) if key not in fresh]
        try:
            self._undo_log.record(fresh)
            self._undo_log.forget(over)
        except OSError as error:
            return [], [*errors, EnforcementError(ErrorKind.LEASE, f"cannot write the undo log: {error}")]
        self._recorded |= {one.cookie: undos for one, undos in noted.items()}
        self._by_itself |= {one.cookie: by_itself for one in noted}
        recorded = list(noted)
        for option, value in self._always.items():
            errors += self.set(recorded, option, value)
        return recorded, errors

    def set(self, sockets: Iterable[DataSocket], option: Option, value: bytes) -> list[EnforcementError]:
        """Of sockets that are on record."""
        return _each(sockets, lambda _, theirs: theirs.setsockopt(*option, value))

    def watch_losses(self) -> list[EnforcementError]:
        """A socket that loses packets gets a short wait; one that no longer does is as it was."""
        errors = []
        for cookie in self._recorded:
            try:
                errors += self._judge(cookie)
            except SocketGone:
                continue
            except OSError as error:
                errors.append(EnforcementError.of(error))
        return errors

    def restore(self, sockets: Iterable[DataSocket]) -> list[EnforcementError]:
        """They are as they were; closed ones are forgotten, and those on record through another descriptor stay so."""
        leaving = [one for one in sockets if self._reaches(one)]
        for one in leaving:
            self._losses.pop(one.cookie, None)
            self._by_itself.pop(one.cookie, None)
        problems = self._restore_control_connections(one.cookie for one in leaving)
        keys = [key for one in leaving for key in self._recorded.pop(one.cookie, ())]
        return not_restored(problems | self._undo_log.take_back(keys))

    def _judge(self, cookie: int) -> list[EnforcementError]:
        """Most sockets never lose much: on record only while it is changed."""
        undos, wanted = self._recorded[cookie], self._where_lossy[self._by_itself[cookie]]
        if not wanted:
            return []
        keys = {(undo.level, undo.option): key for key, undo in undos.items()}
        changed = {option: key for option, key in keys.items() if option in wanted}
        reach = next(iter(undos.values()))
        with duplicated_socket(reach.pid, reach.fd, cookie) as theirs:
            counters = TcpCounters.of(theirs)
            losses = self._losses.setdefault(cookie, Losses())
            lossy = losses.look(counters.acked_bytes, counters.retransmitted_bytes)
            for option, value in wanted.items() if lossy else ():
                # Beside another lossy socket its wait is short already, and long again once that one is restored.

                if option not in changed and (option != TCP_RTO_MIN_US or shortens(theirs, value)):
                    undo = socket_undo(reach.pid, reach.fd, cookie, theirs, *option)
                    self._undo_log.record({_key(undo): undo})
                    undos[_key(undo)] = undo
                    theirs.setsockopt(*option, value)
        if lossy:
            self._shorten_control_connections(cookie, reach.pid, wanted)
        if lossy or not (changed or cookie in self._control_connections):
            return []
        problems = self._undo_log.take_back(changed.values())
        for key in {*changed.values()} - problems.keys():
            del undos[key]
        return not_restored(problems | self._restore_control_connections([cookie]))

    def _shorten_control_connections(self, cookie: int, pid: int, wanted: dict[Option, bytes]) -> None:
        if (wait := wanted.get(TCP_RTO_MIN_US)) is None:
            return
        if cookie not in self._control_connections:
            self._control_connections[cookie] = ControlConnections(self._undo_log, pid, cookie, wait)
        self._control_connections[cookie].shorten()

    def _restore_control_connections(self, cookies: Iterable[int]) -> dict[str, str]:
        problems: dict[str, str] = {}
        for cookie in cookies:
            if (connections := self._control_connections.pop(cookie, None)) is not None:
                problems |= connections.restore()
        return problems

    def _reaches(self, one: DataSocket) -> bool:
        """Whether it is this descriptor through which the socket is on record."""
        return any((undo.pid, undo.fd) == (one.pid, one.fd) for undo in self._recorded.get(one.cookie, {}).values())


def _each(
    sockets: Iterable[DataSocket], use: Callable[[DataSocket, socket.SocketType], object]
) -> list[EnforcementError]:
    errors = []
    for one in sockets:
        try:
            with duplicated_socket(one.pid, one.fd, one.cookie) as theirs:
                use(one, theirs)
        except (SocketGone, OSError) as error:
            errors.append(EnforcementError.of(error))
    return errors


def _key(undo: SocketUndo) -> str:
    return f"socket {undo.cookie} of {undo.pid}/{undo.fd} option {undo.level}/{undo.option}"

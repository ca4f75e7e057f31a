"""Options of jobs' sockets that hostd changes. Law: the original is in the undo log before the first change.

A socket is reached through a descriptor of a process, and may have several: copies, and those that forked processes
inherited. When one descriptor is closed and another remains, the original is recorded for the other before it is
forgotten for the first: `record` what came before `restore` of what left.
"""

import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hostd.enforce.control_connections import ControlConnections
from hostd.enforce.errors import EnforcementError, ErrorKind, not_restored
from hostd.enforce.transport import TCP_CONGESTION, TCP_RTO_MIN_US, Option, Transport, shortens
from hostd.kernel.calls import PATIENT_S, perform, set_option
from hostd.kernel.pidfd import SocketGone
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from hostd.safety.undo import OPTION_BYTES, SocketUndo, socket_undo
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
        self._holders: Counter[DataSocket] = Counter()  # flows that have it on record: it may go from one to another
        self._losses: dict[int, Losses] = {}  # by cookie
        self._by_itself: dict[int, bool] = {}
        self._control_connections: dict[int, ControlConnections] = {}  # beside sockets that lose packets

    def record(self, sockets: Iterable[DataSocket], by_itself: bool) -> tuple[list[DataSocket], list[EnforcementError]]:
        """Puts the options on record as they are now; returns the sockets that may be changed from now on."""
        noted: dict[DataSocket, dict[str, SocketUndo]] = {}
        errors: list[EnforcementError] = []
        unknown: list[DataSocket] = []
        for one in sockets:
            if (before := self._recorded.get(one.cookie)) is not None:  # what it is now hostd made it
                undos = [replace(undo, pid=one.pid, fd=one.fd) for undo in before.values()]
                noted[one] = {option_key(undo): undo for undo in undos}
            else:
                unknown.append(one)
        for one, asked in zip(unknown, self._originals(unknown), strict=True):
            if isinstance(asked, (SocketGone, OSError)):
                errors.append(EnforcementError.of(asked))
            else:
                noted[one] = {option_key(undo): undo for undo in asked}
        fresh = {key: undo for undos in noted.values() for key, undo in undos.items()}
        over = [key for one in noted for key in self._recorded.get(one.cookie, ()) if key not in fresh]
        try:
            self._undo_log.record(fresh)
            self._undo_log.forget(over)
        except OSError as error:
            return [], [*errors, EnforcementError(ErrorKind.LEASE, f"cannot write the undo log: {error}")]
        self._recorded |= {one.cookie: undos for one, undos in noted.items()}
        self._by_itself |= {one.cookie: by_itself for one in noted}
        self._holders.update(noted.keys())
        recorded = list(noted)
        for option, value in self._always.items():
            errors += self.set(recorded, option, value)
        return recorded, errors

    def _originals(self, sockets: Sequence[DataSocket]) -> list[list[SocketUndo] | SocketGone | OSError]:
        """Of every socket the options as they are now."""
        calls = [
            ("get", one.pid, one.fd, one.cookie, *option, OPTION_BYTES) for one in sockets for option in self._options
        ]
        values = iter(perform(calls, PATIENT_S))
        found: list[list[SocketUndo] | SocketGone | OSError] = []
        for one in sockets:
            answers = [next(values) for _ in self._options]
            errors = [answer for answer in answers if isinstance(answer, (SocketGone, OSError))]
            undos = zip(self._options, answers, strict=True)
            found.append(
                errors[0]
                if errors
                else [SocketUndo(one.pid, one.fd, one.cookie, *option, value.hex()) for option, value in undos]
            )
        return found

    def set(self, sockets: Iterable[DataSocket], option: Option, value: bytes) -> list[EnforcementError]:
        """Of sockets that are on record."""
        return list(self.set_each([(one, option, value) for one in sockets]).values())

    def set_each(self, values: Sequence[tuple[DataSocket, Option, bytes]]) -> dict[DataSocket, EnforcementError]:
        """Of sockets that are on record, in one go; returns what was refused."""
        calls = [("set", one.pid, one.fd, one.cookie, *option, value) for one, option, value in values]
        answers = zip(values, perform(calls, PATIENT_S), strict=True)
        return {
            one: EnforcementError.of(answer)
            for (one, _, _), answer in answers
            if isinstance(answer, (SocketGone, OSError))
        }

    def as_before(self, sockets: Iterable[DataSocket], option: Option) -> list[EnforcementError]:
        """The option is what it was; the sockets stay on record."""
        values = [
            (one, option, bytes.fromhex(undo.value))
            for one in sockets
            for undo in self._recorded.get(one.cookie, {}).values()
            if (undo.level, undo.option) == option
        ]
        return list(self.set_each(values).values())

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> list[EnforcementError]:
        """A socket that loses packets gets a short wait; one that no longer does is as it was. By what was last read of
        them, by cookie: what has not been read since has not moved."""
        errors = []
        for cookie, undos in self._recorded.items():
            if (counters := read.get(cookie)) is None or not self._where_lossy[self._by_itself[cookie]]:
                continue
            try:
                errors += self._judge(cookie, next(iter(undos.values())), counters)
            except SocketGone:
                continue
            except OSError as error:
                errors.append(EnforcementError.of(error))
        return errors

    def restore(self, sockets: Iterable[DataSocket]) -> list[EnforcementError]:
        """They are as they were; closed ones are forgotten, and those on record through another descriptor stay so."""
        leaving = [one for one in sockets if self._lets_go(one) and self._reaches(one)]
        for one in leaving:
            self._losses.pop(one.cookie, None)
            self._by_itself.pop(one.cookie, None)
        problems = self._restore_control_connections(one.cookie for one in leaving)
        keys = [key for one in leaving for key in self._recorded.pop(one.cookie, ())]
        return not_restored(problems | self._undo_log.take_back(keys))

    def owes(self, sockets: Iterable[DataSocket]) -> bool:
        """Whether one of these could not be given back what it had, so far."""
        return any(
            self._undo_log.has(option_key(SocketUndo(one.pid, one.fd, one.cookie, *option, "")))
            for one in sockets
            for option in self._options
        )

    def _lets_go(self, one: DataSocket) -> bool:
        """Whether no other flow holds it."""
        self._holders[one] -= 1
        if self._holders[one] > 0:
            return False
        del self._holders[one]
        return True

    def _judge(self, cookie: int, reach: SocketUndo, counters: TcpCounters) -> list[EnforcementError]:
        """Most sockets never lose much: on record only while it is changed."""
        undos, wanted = self._recorded[cookie], self._where_lossy[self._by_itself[cookie]]
        keys = {(undo.level, undo.option): key for key, undo in undos.items()}
        changed = {option: key for option, key in keys.items() if option in wanted}
        losses = self._losses.setdefault(cookie, Losses())
        lossy = losses.look(counters.acked_bytes, counters.retransmitted_bytes)
        for option, value in wanted.items() if lossy else ():
            # Beside another lossy socket its wait is short already, and long again once that one is restored.
            if option not in changed and (option != TCP_RTO_MIN_US or shortens(reach, value)):
                if option == TCP_CONGESTION and self._undo_log.has(
                    option_key(replace(reach, level=option[0], option=option[1]))
                ):
                    continue  # its control is our own for now (weighing/weigher.py)
                undo = socket_undo(reach, *option)
                self._undo_log.record({option_key(undo): undo})
                set_option(reach, *option, value)  # what is refused is tried again
                undos[option_key(undo)] = undo
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


def option_key(undo: SocketUndo) -> str:
    return f"socket {undo.cookie} of {undo.pid}/{undo.fd} option {undo.level}/{undo.option}"

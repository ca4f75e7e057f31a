"""Options of jobs' sockets that we change. Law: the original is in the journal before the first change."""

import socket
from collections.abc import Callable, Iterable

from hostd.borrow import Gone, borrowed
from hostd.journal import Journal
from hostd.sockets import DataSocket
from hostd.undo import Undo, socket_undo

Option = tuple[int, int]  # level and name, as for setsockopt


class HeldSockets:
    """Sets these options on sockets of jobs. What could not be done is returned as lines, never raised."""

    def __init__(self, journal: Journal, option: Option, congestion_control: str | None = None) -> None:
        """Every socket held gets the congestion control, if one is named."""
        self._journal = journal
        self._options = (option, TCP_CONGESTION) if congestion_control else (option,)
        self._congestion_control = congestion_control

    def hold(self, sockets: Iterable[DataSocket]) -> tuple[list[DataSocket], list[str]]:
        """Puts the options on record as they are now; returns the sockets that may be changed from now on."""
        originals: dict[str, Undo] = {}
        held = []

        def note(one: DataSocket, theirs: socket.socket) -> None:
            for option in self._options:
                originals[_key(one, option)] = socket_undo(one.pid, one.fd, one.cookie, theirs, *option)
            held.append(one)

        troubles = _each(sockets, note)
        try:
            self._journal.record(originals)
        except OSError as error:
            return [], [*troubles, f"cannot write the journal: {error}"]
        if self._congestion_control:
            troubles += self.set(held, TCP_CONGESTION, self._congestion_control.encode())
        return held, troubles

    def set(self, sockets: Iterable[DataSocket], option: Option, value: bytes) -> list[str]:
        """Of sockets that are held."""
        return _each(sockets, lambda _, theirs: theirs.setsockopt(*option, value))

    def give_back(self, sockets: Iterable[DataSocket]) -> list[str]:
        """They are as they were; closed ones are forgotten."""
        keys = [_key(one, option) for one in sockets for option in self._options]
        return [f"{key}: {problem}" for key, problem in self._journal.take_back(keys).items()]


def _each(sockets: Iterable[DataSocket], use: Callable[[DataSocket, socket.socket], object]) -> list[str]:
    troubles = []
    for one in sockets:
        try:
            with borrowed(one.pid, one.fd, one.cookie) as theirs:
                use(one, theirs)
        except (Gone, OSError) as error:
            troubles.append(str(error))
    return troubles


def _key(one: DataSocket, option: Option) -> str:
    return f"socket {one.cookie} option {option[0]}/{option[1]}"


SO_PRIORITY: Option = (socket.SOL_SOCKET, 12)
SO_MAX_PACING_RATE: Option = (socket.SOL_SOCKET, 47)
TCP_CONGESTION: Option = (socket.IPPROTO_TCP, 13)

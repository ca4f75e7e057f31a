"""A stream between a host and its switch, or between two switches: in order, opened by the lower end, lost as a whole.

    lower end      hello ──▶ upper end takes it in ──▶ welcome ──▶ lower end is connected
    cut            what is under way is lost; each end notices at a time of its own, the lower one then tries again

An upper end that has not noticed takes a new connection in place of the old one (switchd/switch.py).
"""

from collections.abc import Callable

from paceline.flowcore.model.units import NS_PER_MS
from paceline.sim.faults.surroundings import Surroundings

# As hostd and switchd do (paceline/wire/host_stream.py, switchd/uplink.py).
RETRY_NS = 50 * NS_PER_MS

# An answer to a Hello that does not come is waited for no longer (paceline/wire/calls.py).
HELLO_NS = 1000 * NS_PER_MS


class Stream:
    def __init__(self, world: Surroundings, lower: str, upper: str, latency_ns: int) -> None:
        self.lower, self.upper = lower, upper
        self.cuts = 0  # at work now
        self.late_ns = 0
        self._world, self._latency_ns = world, latency_ns
        self._connections = 0
        self._intact: int | None = None  # the connection over which messages arrive
        self._current: dict[str, int | None] = {lower: None, upper: None}  # as each end believes
        self._arrived_ns = {lower: 0, upper: 0}
        self._attempt = 0  # to open it

    def connected(self, end: str) -> bool:
        """As this end believes."""
        return self._current[end] is not None

    def other(self, end: str) -> str:
        return self.upper if end == self.lower else self.lower

    # ---- Opening ----

    def open(self, later_ns: int = 0) -> None:
        """From the lower end, until it works."""
        self._attempt += 1
        attempt = self._attempt
        self._world.after(later_ns, lambda: self._hello() if attempt == self._attempt else None)

    def _hello(self) -> None:
        if not self._world.alive(self.lower) or self.connected(self.lower):
            return
        if self.cuts or not self._world.alive(self.upper):
            self.open(RETRY_NS)
            return
        self._connections += 1
        connection = self._intact = self._connections
        self._carry(self.upper, connection, lambda: self._taken_in(connection), hello=True)
        self.open(HELLO_NS)

    def _taken_in(self, connection: int) -> None:
        self._current[self.upper] = connection
        self._world.connected(self.upper, self.lower)
        self._carry(self.lower, connection, lambda: self._welcomed(connection), hello=True)

    def _welcomed(self, connection: int) -> None:
        self._current[self.lower] = connection
        self._world.connected(self.lower, self.upper)

    # ---- Messages ----

    def send(self, sender: str, arrive: Callable[[], None]) -> bool:
        """False if the sender knows of no connection; else it arrives, late, or never."""
        connection = self._current[sender]
        if connection is None:
            return False
        self._carry(self.other(sender), connection, arrive)
        return True

    def _carry(self, to: str, connection: int, arrive: Callable[[], None], *, hello: bool = False) -> None:
        if self._intact != connection:
            return
        due_ns = max(self._world.now_ns + self._latency_ns + self.late_ns, self._arrived_ns[to])
        self._arrived_ns[to] = due_ns

        def due() -> None:
            self._world.act(to, lambda: arrive() if self._arrives(to, connection, hello) else None)

        self._world.at(due_ns, due)

    def _arrives(self, to: str, connection: int, hello: bool) -> bool:
        return self._intact == connection and (hello or self._current[to] == connection)

    # ---- Breaking ----

    def break_off(self, noticed_ns: dict[str, int]) -> None:
        """What is under way is lost; each end notices so much later."""
        self._intact = None
        if not self.connected(self.lower):  # the Hello is lost
            self.open(RETRY_NS)
        for end, later_ns in noticed_ns.items():
            connection = self._current[end]
            if connection is not None:
                self._world.after(later_ns, lambda end=end, old=connection: self._notice(end, old))  # type: ignore[misc]

    def _notice(self, end: str, connection: int) -> None:
        self._world.act(end, lambda: self._ended(end, connection))

    def _ended(self, end: str, connection: int) -> None:
        if self._current[end] != connection:
            return  # another has taken its place
        self._current[end] = None
        self._world.disconnected(end, self.other(end))
        if end == self.lower:
            self.open(RETRY_NS)

    def forget(self, end: str) -> None:
        """This end was killed: it remembers nothing."""
        self._current[end] = None
        if end == self.lower:
            self._attempt += 1

"""What hosts, switches, streams and jobs may do in the world they are in (world.py)."""

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple, Protocol

from paceline.flowcore.messages.events import HostEvent, Limit, Message, SwitchEvent
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology


class Envelope(NamedTuple):
    """A message between two switches, as far as the stream that carries it."""

    source: str
    to: str
    message: Message | None  # None: `source` cannot be reached


class Counters(NamedTuple):
    sent_bytes: tuple[tuple[FlowId, float], ...]  # of live flows, in their iteration
    idle: tuple[FlowId, ...]  # those with nothing for the network just now


class Surroundings(Protocol):
    now_ns: int  # true time
    topology: Topology
    slots: SlotClock
    policy: str
    gathers: bool  # flows that come or leave within a moment are settled together, as beside many flows

    # ---- Time ----

    def at(self, time_ns: int, action: Callable[[], None]) -> None: ...

    def after(self, delay_ns: int, action: Callable[[], None]) -> None: ...

    def alive(self, name: str) -> bool: ...

    def act(self, name: str, action: Callable[[], None]) -> None:
        """By this host or switch: now, after its stall, or never."""

    def doing(self, name: str, action: Callable[[], None]) -> Callable[[], None]:
        """For a timer of this host or switch: a daemon that was restarted has none of the old ones."""

    # ---- Messages ----

    def send_report(self, host: str, switch: str, report: Report) -> None: ...

    def send_feedback(self, switch: str, host: str, feedback: Feedback) -> None: ...

    def send_frame(self, switch: str, neighbour: str, envelopes: Sequence[Envelope]) -> None: ...

    def connected(self, end: str, other: str) -> None: ...

    def disconnected(self, end: str, other: str) -> None: ...

    # ---- Jobs ----

    def tell(self, host: str, event: HostEvent) -> None:
        """What the host's monitor has seen."""

    def counters(self, host: str, jobs: Container[str]) -> Counters: ...

    def limit(self, limit: Limit) -> None: ...

    def note(self, name: str, event: HostEvent | SwitchEvent) -> None: ...

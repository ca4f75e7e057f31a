"""What goes in and out of the two state machines: events are facts, effects are requests to the shell."""

from dataclasses import dataclass

from paceline.flowcore.messages.escalation import EscalatedClaims, ShareUpdate
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.patterns import FlowId, FlowSpec
from paceline.flowcore.model.units import UNLIMITED

# ---- The job, as the host's monitor sees it ----


@dataclass(frozen=True, slots=True)
class JobJoined:
    """A job with a worker or server here, and the flows this host sends for it."""

    job: str
    flows: tuple[FlowSpec, ...]
    downstream: tuple[tuple[FlowId, tuple[FlowId, ...]], ...] = ()
    weight: float = 1.0  # how much it counts beside others (model/weights.py)
    iterations: int = 0  # that it will do; 0: nobody knows
    weighable: bool = False  # its sockets can be made to count for several
    unstoppable: bool = False  # its launches can be held, and nothing that has been launched


@dataclass(frozen=True, slots=True)
class JobLeft:
    job: str


@dataclass(frozen=True, slots=True)
class FlowReady:
    """A burst of the flow waits (a pull: its server began to receive): all of its iteration's bytes, or those up to
    `until_bytes` of them. The same of a live flow: its burst has grown."""

    flow: FlowId
    iteration: int  # from 0, the same number on every host of the job
    until_bytes: float = UNLIMITED


@dataclass(frozen=True, slots=True)
class Progress:
    """Counters read from the shim or the kernel: bytes sent in the current iteration. Read before deciding."""

    sent_bytes: tuple[tuple[FlowId, float], ...]
    idle: tuple[FlowId, ...] = ()  # those with nothing that the network has not taken: no link holds them back


@dataclass(frozen=True, slots=True)
class FlowDone:
    """Its burst is over."""

    flow: FlowId


@dataclass(frozen=True, slots=True)
class IterationEnded:
    """This host's part of the iteration is over and the next one begins with its compute phase."""

    job: str


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The switch has taken the host in and says when in a slot to report, so that its hosts do not all come at once."""

    phase_ns: int


@dataclass(frozen=True, slots=True)
class ClockSet:
    """The clock that hosts and switches share was set: what was at one time is now `by_ns` later on it, or earlier."""

    by_ns: int


@dataclass(frozen=True, slots=True)
class OthersSend:
    """Cross traffic leaves through this host's own NICs, and counts as so much load (detect/others.py), until told
    otherwise. `foreign`: some of it is of no job (detect/foreign.py)."""

    load_bps: float
    foreign: bool


@dataclass(frozen=True, slots=True)
class SwitchLost:
    """The stream to the switch broke; the shell noticed before the silence did."""


@dataclass(frozen=True, slots=True)
class Tick:
    """`next_deadline()` has come."""


@dataclass(frozen=True, slots=True)
class PeersLost:
    """These switches cannot be reached; the shell noticed before their silence did."""

    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeersFound:
    """A way to these switches is open again; those that no report asks would otherwise stay silent for ever."""

    peers: tuple[str, ...]


HostEvent = (
    JobJoined
    | JobLeft
    | FlowReady
    | Progress
    | FlowDone
    | IterationEnded
    | Feedback
    | Welcomed
    | ClockSet
    | OthersSend
    | SwitchLost
    | Tick
)


@dataclass(frozen=True, slots=True)
class Together:
    """What happened at one time, in this order: what the host does about it, it does in one go."""

    events: tuple[HostEvent, ...]


HostInput = HostEvent | Together  # what a host agent handles
SwitchEvent = Report | Feedback | EscalatedClaims | ShareUpdate | PeersLost | PeersFound | Tick
Message = Report | Feedback | EscalatedClaims | ShareUpdate


# ---- Effects ----


@dataclass(frozen=True, slots=True)
class Send:
    """Deliver a message to a host or switch by name; it may be late or lost, never altered."""

    to: str
    message: Message


# A burst that takes less than this alone is over before a turn could be asked for, granted and taken.
SHORTEST_BURST_NS = 16_000_000

# No limit is lower: below 1 Mbit/s HTB and pacing build up a debt that outlives the limit, and the first byte after it
# is late. A guarantee of the floor is none: what the flow was promised before is free for other flows.
FLOOR_BPS = 1e6


@dataclass(frozen=True, slots=True)
class Limit:
    """Hold a flow to this, HTB's rate and ceil, from the host agent's decision to the kernel; UNLIMITED lifts it."""

    flow: FlowId
    rate_bps: float  # guaranteed
    ceiling_bps: float  # how far the flow may borrow
    stands_for: float = 1.0  # beside cross traffic it counts for so many flows

    @property
    def guaranteed_bps(self) -> float:
        """What other flows cannot have: nothing of the floor, and of a guarantee that was lifted."""
        return self.rate_bps if FLOOR_BPS < self.rate_bps < UNLIMITED else 0.0

    @property
    def lifted(self) -> bool:
        return self.rate_bps >= UNLIMITED and self.ceiling_bps >= UNLIMITED


Effect = Send | Limit

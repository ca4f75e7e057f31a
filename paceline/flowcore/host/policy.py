"""What a host asks of a policy: when to report, what to bid, and how a grant becomes a limit.

The host agent calls these methods and hands itself over as a HostContext. The base class does nothing, which is TCP
alone: see policy/fair.py. A policy that wants the switch to divide the current slot names an arbiter, and one that
holds jobs to times a timetable.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol

from paceline.flowcore.allocation.aggressiveness import Aggressiveness
from paceline.flowcore.allocation.arbiters import Arbiter
from paceline.flowcore.allocation.shifts.timetable import Timetable
from paceline.flowcore.host.flow_state import FlowState, JobFlows
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.slots import SlotClock

# A job that is left alone claims so seldom, to be remembered (switch/claims.py).
REMIND_SLOTS = 150


class HostContext(Protocol):
    """What a policy may see of a host, and what it may do there."""

    @property
    def clock(self) -> SlotClock: ...

    @property
    def flows(self) -> Mapping[FlowId, FlowState]: ...

    @property
    def jobs(self) -> Mapping[str, JobFlows]: ...

    @property
    def nic_bps(self) -> float: ...

    @property
    def others_bps(self) -> float:
        """Load of cross traffic on its own NICs, which no switch divides."""

    @property
    def rtt_ns(self) -> int:
        """From a new claim to its grant, which may have been decided several switches up."""

    def is_left_alone(self, flow: FlowState) -> bool:
        """Nobody competes with its job: it sends as it likes, without a claim."""

    def live_flows(self) -> list[FlowState]: ...

    def report(
        self,
        flows: Iterable[FlowState],
        now_ns: int,
        *,
        plans: bool = False,
        withdraw: Sequence[FlowState] = (),
        stalled: Sequence[FlowState] = (),
    ) -> None:
        """Send one report with these flows' claims, with or without their plans."""

    def limit(self, flow: FlowState, rate_bps: float, ceiling_bps: float, stands_for: float = 1.0) -> None:
        """Enforce, unless it is in force already."""


class JobState(NamedTuple):
    """A job with bytes waiting, as its bid needs it."""

    progress: JobProgress
    remaining_share: float  # of the iteration's bytes
    ready_ns: int  # since when they have been waiting
    granted: bool = False  # it was given a share in this burst, on this host
    sent_iterations: float = 0.0  # the bytes of so many iterations have been sent since the job came


class Policy:
    name: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}  # name: what it changes; chosen with the policy, as in mlcc:ready:open
    paced: ClassVar[bool] = True  # False: hosts neither ask nor limit
    arbiter: Arbiter | None = None
    yields_to_cross_traffic: ClassVar[bool] = False  # on links with cross traffic no job waits for a turn
    keeps_ledger: ClassVar[bool] = False  # the switch holds jobs to an equal share in the long run (switch/ledger.py)
    simulated: ClassVar[bool] = False  # runs in the simulator only; the daemons refuse it
    host_only: ClassVar[bool] = False  # a host decides from its own NIC and asks no switch
    leaves_uncontended: ClassVar[bool] = False  # a job that nobody competes with is left as it is, and claims nothing
    acts_at_boundaries: ClassVar[bool] = False  # of slots, too, where the host reports later (on_boundary)
    samples_stretches: bool = True  # B_i from the fastest stretch of a slot, else from all of it (bandwidth.py)
    start_after: ClassVar[bool] = False  # the job forwards only what has arrived whole (patterns.grain_bytes)
    contention: ClassVar[float] = 0.0  # what colliding costs a link (fairshare.contended_bps)
    aggressiveness: ClassVar[Aggressiveness | None] = None  # flows are MLTCP's, with these weights

    def __init__(self, *chosen: str) -> None:
        self.chosen = frozenset(chosen)
        if unknown := sorted(self.chosen - self.options.keys()):
            raise ValueError(
                f"{self.name} has no option {unknown[0]!r}; expected of {', '.join(self.options) or 'none'}"
            )

    def timetable(self, capacity_bps: Mapping[str, float]) -> Timetable | None:
        """A new one for a switch with these links; None: no job has a time."""
        return None

    def bid(self, state: JobState) -> Bid:
        """How urgent the job is, for the arbiter."""
        return Bid(0.0)

    def sees(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The links of a path that the policy knows of."""
        return path

    def on_ready(self, host: HostContext, flow: FlowState, now_ns: int) -> None:
        """The flow has an iteration's bytes waiting."""

    def on_done(self, host: HostContext, flow: FlowState, now_ns: int) -> None:
        """The flow has sent them."""

    def on_slot(self, host: HostContext, now_ns: int) -> None:
        """It is time to report, once in every slot in which flows are live."""

    def on_boundary(self, host: HostContext, now_ns: int) -> None:
        """A slot begins, and this host reports later in it."""

    def on_feedback(self, host: HostContext, flows: list[FlowState], now_ns: int) -> None:
        """These flows have a fresh grant."""

    def on_tick(self, host: HostContext, now_ns: int) -> None:
        """The policy's own deadline may have come."""

    def next_deadline(self, host: HostContext) -> int | None:
        return None

    def awaited(self, host: HostContext, now_ns: int) -> Collection[str]:
        """The jobs for which the policy's own deadline has come."""
        return host.jobs.keys()

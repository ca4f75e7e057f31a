"""What a policy is: when to report, what to bid, and how a grant becomes a rate.

The host agent calls these; every method may use the agent's `report` and `set_rate`. The base class does nothing,
which is TCP alone: see fair.py. A policy that wants the switch to divide the current slot names an arbiter.
"""

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from paceline.flowcore.allocation.arbiters import Arbiter
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.reports import Bid

if TYPE_CHECKING:
    from paceline.flowcore.host.agent import HostAgent
    from paceline.flowcore.host.flow_state import Flow


class Standing(NamedTuple):
    """A job with bytes waiting, as whoever bids for it knows it."""

    progress: JobProgress
    remaining_share: float  # of the iteration's bytes
    ready_ns: int  # since when they have been waiting


class Policy:
    name: ClassVar[str]
    paced: ClassVar[bool] = True  # False: hosts neither ask nor limit
    arbiter: Arbiter | None = None
    wary: ClassVar[bool] = False  # nobody waits for his turn where others send too (strangers.py)
    simulated: ClassVar[bool] = False  # only: the daemons decide where it would not
    host_only: ClassVar[bool] = False  # a host decides from its own NIC and asks no switch
    start_after: ClassVar[bool] = False  # the job forwards only what has arrived whole (patterns.grain_bytes)
    contention: ClassVar[float] = 0.0  # what colliding costs a link (fairshare.contended_bps)

    def bid(self, standing: Standing) -> Bid:
        """How urgent the job is, for the arbiter."""
        return Bid(0.0)

    def sees(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The links of a path that the policy knows of."""
        return path

    def on_ready(self, host: "HostAgent", flow: "Flow", now_ns: int) -> None:
        """The flow has an iteration's bytes waiting."""

    def on_done(self, host: "HostAgent", flow: "Flow", now_ns: int) -> None:
        """The flow has sent them."""

    def on_slot(self, host: "HostAgent", now_ns: int) -> None:
        """It is time to report, once in every slot in which flows are live."""

    def on_boundary(self, host: "HostAgent", now_ns: int) -> None:
        """A slot begins, and this host reports later in it."""

    def on_feedback(self, host: "HostAgent", flows: "list[Flow]", now_ns: int) -> None:
        """These flows have a fresh grant."""

    def on_tick(self, host: "HostAgent", now_ns: int) -> None:
        """The policy's own deadline may have come."""

    def next_deadline(self, host: "HostAgent") -> int | None:
        return None

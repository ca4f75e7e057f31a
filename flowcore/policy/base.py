"""What a policy is: when to report, what to bid, and how a grant becomes a rate.

The host agent calls these; every method may use the agent's `report` and `set_rate`. The base class does nothing,
which is TCP alone: see fair.py. A policy that wants the switch to divide the current slot names an arbiter.
"""

from typing import TYPE_CHECKING, ClassVar

from flowcore.arbitrate import Arbiter
from flowcore.messages import Bid

if TYPE_CHECKING:
    from flowcore.host import Flow, HostAgent


class Policy:
    name: ClassVar[str]
    paced: ClassVar[bool] = True  # False: hosts neither ask nor limit
    arbiter: Arbiter | None = None

    def bid(self, host: "HostAgent", flow: "Flow", now_ns: int) -> Bid:
        """How urgent the flow is, for the arbiter."""
        return Bid(0.0)

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

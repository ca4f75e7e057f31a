"""What one iteration of a job puts on the links of a switch, and so how long its exchange takes there alone.

A size is its host's word. Sizes that are too small would make a burst look too short to take turns, so a flow counts
with at least half of what it has sent in one claim, now or before: a host withdraws a claim when its bytes have gone.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paceline.flowcore.allocation.alone import alone_ns
from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.patterns import FlowId


class _FlowDemand(NamedTuple):
    size_bytes: float
    links: tuple[str, ...]
    heard_slot: int
    begun_bytes: float  # F when its claim came
    most_bytes: float  # that it has sent in one claim

    @property
    def counted_bytes(self) -> float:
        return max(self.size_bytes, self.most_bytes / 2)


class JobDemand:
    """Learned from a job's claims, and kept between iterations."""

    __slots__ = ("_capacity_bps", "_flows", "alone_ns", "heard_slot")

    def __init__(self, capacity_bps: Mapping[str, float]) -> None:
        self._capacity_bps = capacity_bps
        self._flows: dict[FlowId, _FlowDemand] = {}
        self.alone_ns = 0
        self.heard_slot = 0

    def size_bytes(self, flow: FlowId) -> float:
        """0 where it is not known."""
        known = self._flows.get(flow)
        return 0.0 if known is None else known.size_bytes

    def learn(self, claim: Claim, links: Iterable[str], slot: int, *, renewed: bool) -> None:
        before = self._flows.get(claim.flow)
        begun_bytes = before.begun_bytes if renewed and before is not None else claim.sent_bytes
        most_bytes = max(claim.sent_bytes - begun_bytes, 0.0 if before is None else before.most_bytes)
        self.heard_slot = slot
        known = _FlowDemand(claim.size_bytes, tuple(links), slot, begun_bytes, most_bytes)
        self._flows[claim.flow] = known
        if before is None or before.counted_bytes != known.counted_bytes:
            self._add_up()

    def forget(self, before_slot: int) -> None:
        """Drop the flows that no report has named since: the job goes on with other hosts."""
        self._flows = {flow: known for flow, known in self._flows.items() if known.heard_slot >= before_slot}
        self._add_up()

    def _add_up(self) -> None:
        flows = ((known.counted_bytes, known.links) for known in self._flows.values())
        self.alone_ns = alone_ns(flows, self._capacity_bps)

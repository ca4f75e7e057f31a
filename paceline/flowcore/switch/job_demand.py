"""What one iteration of a job puts on the links of a switch, and so how long its exchange takes there alone."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paceline.flowcore.allocation.alone import alone_ns
from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.patterns import FlowId


class _FlowDemand(NamedTuple):
    size_bytes: float
    links: tuple[str, ...]
    heard_slot: int


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

    def learn(self, claim: Claim, links: Iterable[str], slot: int) -> None:
        changed = self.size_bytes(claim.flow) != claim.size_bytes
        self.heard_slot = slot
        self._flows[claim.flow] = _FlowDemand(claim.size_bytes, tuple(links), slot)
        if changed:
            self._add_up()

    def forget(self, before_slot: int) -> None:
        """Drop the flows that no report has named since: the job goes on with other hosts."""
        self._flows = {flow: known for flow, known in self._flows.items() if known.heard_slot >= before_slot}
        self._add_up()

    def _add_up(self) -> None:
        flows = ((known.size_bytes, known.links) for known in self._flows.values())
        self.alone_ns = alone_ns(flows, self._capacity_bps)

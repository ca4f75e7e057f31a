"""What one iteration of a job puts on the links of a switch, and so how long its exchange takes there alone."""

from collections.abc import Iterable, Mapping

from flowcore.messages import Claim
from flowcore.patterns import FlowId
from flowcore.units import transfer_ns


class JobSizes:
    """What one iteration of a job puts on the links of this switch."""

    __slots__ = ("_bytes_on", "_known", "alone_ns", "heard_slot")

    def __init__(self) -> None:
        self._known: dict[FlowId, float] = {}
        self._bytes_on: dict[str, float] = {}
        self.alone_ns = 0
        self.heard_slot = 0

    def learn(self, claim: Claim, links: Iterable[str], capacity_bps: Mapping[str, float]) -> None:
        known = self._known.get(claim.flow)
        if known == claim.size_bytes:
            return
        self._known[claim.flow] = claim.size_bytes
        for link in links:
            self._bytes_on[link] = self._bytes_on.get(link, 0.0) + claim.size_bytes - (known or 0.0)
        self.alone_ns = max((transfer_ns(size, capacity_bps[link]) for link, size in self._bytes_on.items()), default=0)

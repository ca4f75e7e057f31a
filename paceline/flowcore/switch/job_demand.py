"""What one iteration of a job puts on the links of a switch, and so how long its exchange takes there alone."""

from collections.abc import Iterable, Mapping

from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import transfer_ns


class JobDemand:
    """What one iteration of a job puts on the links of this switch."""

    __slots__ = ("_capacity_bps", "_heard", "_known", "alone_ns", "heard_slot")

    def __init__(self, capacity_bps: Mapping[str, float]) -> None:
        self._capacity_bps = capacity_bps
        self._known: dict[FlowId, tuple[float, tuple[str, ...]]] = {}
        self._heard: dict[FlowId, int] = {}
        self.alone_ns = 0
        self.heard_slot = 0

    def of(self, flow: FlowId) -> float:
        """0 where it is not known."""
        return self._known.get(flow, (0.0, ()))[0]

    def learn(self, claim: Claim, links: Iterable[str], slot: int) -> None:
        self.heard_slot = self._heard[claim.flow] = slot
        if self.of(claim.flow) != claim.size_bytes:
            self._known[claim.flow] = (claim.size_bytes, tuple(links))
            self._add_up()

    def forget(self, before_slot: int) -> None:
        """Flows nobody has spoken of since: the job goes on with other hosts."""
        for flow in [flow for flow, slot in self._heard.items() if slot < before_slot]:
            del self._heard[flow], self._known[flow]
        self._add_up()

    def _add_up(self) -> None:
        bytes_on: dict[str, float] = {}
        for size_bytes, links in self._known.values():
            for link in links:
                bytes_on[link] = bytes_on.get(link, 0.0) + size_bytes
        self.alone_ns = max((transfer_ns(size, self._capacity_bps[link]) for link, size in bytes_on.items()), default=0)

"""What one iteration of a job puts on the links of a switch, and so how long its exchange takes there alone.

A size is its host's word. Sizes that are too small would make a burst look too short to take turns, so a flow counts
with at least half of what it has sent in one claim, now or before: a host withdraws a claim when its bytes have gone.
A flow that has sent nothing for NEVER_SENT_SLOTS, while others of its job have, does not count: another's host may have
named the job.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paceline.flowcore.allocation.alone import alone_ns
from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.patterns import FlowId

NEVER_SENT_SLOTS = 20  # a pull waits for its job's pushes


class _FlowDemand(NamedTuple):
    size_bytes: float
    links: tuple[str, ...]
    path: tuple[str, ...]  # those and the links of other switches
    first_slot: int
    heard_slot: int
    begun_bytes: float  # F when its claim came
    most_bytes: float  # that it has sent in one claim

    @property
    def counts(self) -> bool:
        return self.most_bytes > 0.0 or self.heard_slot - self.first_slot <= NEVER_SENT_SLOTS

    @property
    def counted_bytes(self) -> float:
        return max(self.size_bytes, self.most_bytes / 2)


class JobDemand:
    """Learned from a job's claims, and kept between iterations."""

    __slots__ = ("_alone_ns", "_capacity_bps", "_flows", "_named", "_whole", "heard_slot")

    def __init__(self, capacity_bps: Mapping[str, float]) -> None:
        self._capacity_bps = capacity_bps
        self._flows: dict[FlowId, _FlowDemand] = {}
        self._named = set[FlowId]()  # by those as upstream or downstream
        self._whole: bool | None = None  # None: to be judged anew
        self._alone_ns: int | None = 0  # None: to be added up anew, once for all claims of a report
        self.heard_slot = 0

    @property
    def alone_ns(self) -> int:
        if self._alone_ns is None:
            counted = [known for known in self._flows.values() if known.counts]
            flows = ((known.counted_bytes, known.links) for known in counted or self._flows.values())
            self._alone_ns = alone_ns(flows, self._capacity_bps)
        return self._alone_ns

    @property
    def whole(self) -> bool:
        """Every flow that depends on one of these, or the other way round, is one of these."""
        if self._whole is None:
            self._whole = self._named <= self._flows.keys()
        return self._whole

    @property
    def links(self) -> set[str]:
        """That its flows cross."""
        return {link for known in self._flows.values() for link in known.links}

    def size_bytes(self, flow: FlowId) -> float:
        """0 where it is not known."""
        known = self._flows.get(flow)
        return 0.0 if known is None else known.size_bytes

    def path_of(self, flow: FlowId) -> tuple[str, ...]:
        """As its host claimed it; nothing where it is not known."""
        known = self._flows.get(flow)
        return () if known is None else known.path

    def learn(self, claim: Claim, links: Iterable[str], slot: int, *, renewed: bool) -> None:
        before = self._flows.get(claim.flow)
        begun_bytes = before.begun_bytes if renewed and before is not None else claim.sent_bytes
        most_bytes = max(claim.sent_bytes - begun_bytes, 0.0 if before is None else before.most_bytes)
        self.heard_slot = slot
        first_slot = slot if before is None else before.first_slot
        known = _FlowDemand(claim.size_bytes, tuple(links), claim.path, first_slot, slot, begun_bytes, most_bytes)
        self._flows[claim.flow] = known
        if before is None:
            self._named.update(claim.upstream, claim.downstream)
            self._whole = None
        if before is None or before.counts != known.counts or before.counted_bytes != known.counted_bytes:
            self._alone_ns = None

    def remove(self, flow: FlowId) -> None:
        """Its job has left its host."""
        self._flows.pop(flow, None)
        self._alone_ns = self._whole = None

    def forget(self, before_slot: int) -> None:
        """Drop the flows that no report has named since: the job goes on with other hosts."""
        self._flows = {flow: known for flow, known in self._flows.items() if known.heard_slot >= before_slot}
        self._alone_ns = self._whole = None

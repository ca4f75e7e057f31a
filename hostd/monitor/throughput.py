"""How fast each flow really was, from one measurement of what it has sent to the next.

Measurements come when the job is looked at, not when a slot begins: a rate holds until the next one, or until the flow
rests.
"""

from collections.abc import Iterable, Mapping

from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import BITS_PER_BYTE, NS_PER_S


class Throughput:
    def __init__(self) -> None:
        self._at: dict[FlowId, tuple[int, float]] = {}
        self._bps: dict[FlowId, float] = {}

    def sample(self, measured: Iterable[tuple[FlowId, int, float]]) -> None:
        """Of each moving flow, when it was measured and the bytes sent until then; those not named are at rest."""
        at: dict[FlowId, tuple[int, float]] = {}
        bps: dict[FlowId, float] = {}
        for flow, at_ns, sent_bytes in measured:
            before_ns, before_bytes = self._at.get(flow, (at_ns, sent_bytes))
            at[flow] = (at_ns, sent_bytes)
            if at_ns > before_ns:
                bps[flow] = max(0.0, sent_bytes - before_bytes) * BITS_PER_BYTE * NS_PER_S / (at_ns - before_ns)
            else:
                bps[flow] = self._bps.get(flow, 0.0)
        self._at, self._bps = at, bps

    @property
    def rates_bps(self) -> Mapping[FlowId, float]:
        """Of the flows that are not at rest; the next sample makes another mapping."""
        return self._bps

    def bps(self, flow: FlowId) -> float:
        return self._bps.get(flow, 0.0)

"""How fast each flow really was in the last slot."""

from collections.abc import Iterable

from flowcore.patterns import FlowId
from flowcore.units import BITS_PER_BYTE, NS_PER_S


class AchievedRates:
    def __init__(self) -> None:
        self._at: dict[FlowId, tuple[int, float]] = {}
        self._bps: dict[FlowId, float] = {}

    def sample(self, now_ns: int, volumes: Iterable[tuple[FlowId, float]]) -> None:
        """Bytes each live flow has sent so far; those not named are at rest."""
        present = dict(volumes)
        self._bps = {
            flow: max(0.0, volume - before) * BITS_PER_BYTE * NS_PER_S / max(1, now_ns - at_ns)
            for flow, volume in present.items()
            if (known := self._at.get(flow)) is not None
            for at_ns, before in [known]
        }
        self._at = {flow: (now_ns, volume) for flow, volume in present.items()}

    def bps(self, flow: FlowId) -> float:
        return self._bps.get(flow, 0.0)

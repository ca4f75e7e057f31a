"""How long the last decisions took, for people and benchmarks; Prometheus has the histogram."""

from collections import deque

KEPT = 4096  # at ten flows and 60 ms, two minutes


class Durations:
    def __init__(self) -> None:
        self.count = 0
        self._last_s: deque[float] = deque(maxlen=KEPT)

    def note(self, duration_s: float) -> None:
        self.count += 1
        self._last_s.append(duration_s)

    def percentiles_ms(self) -> dict[str, float]:
        """Of the last KEPT; zeros before the first."""
        ordered = sorted(self._last_s) or [0.0]
        return {f"p{part}": 1e3 * ordered[(len(ordered) - 1) * part // 100] for part in (50, 90, 99)}

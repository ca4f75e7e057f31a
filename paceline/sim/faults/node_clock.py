"""A daemon's clock among others: its own, and what it has learned of its switch's (paceline/service/shared_clock.py).

now = true time + offset        a step back of up to STEP_NS holds time instead; a larger one is a step
"""

from paceline.flowcore.model.units import NS_PER_MS

STEP_NS = 50 * NS_PER_MS


class NodeClock:
    def __init__(self, offset_ns: int) -> None:
        self.offset_ns = offset_ns
        self._last_ns = 0

    def now_ns(self, true_ns: int) -> int:
        now_ns = true_ns + self.offset_ns
        if self._last_ns - STEP_NS <= now_ns < self._last_ns:
            return self._last_ns
        self._last_ns = now_ns
        return now_ns

    def follow(self, offset_ns: int) -> int:
        """The peer's clock is off by so much; by how much time has jumped, 0 where that is no step."""
        step_ns, self.offset_ns = offset_ns - self.offset_ns, offset_ns
        return step_ns if abs(step_ns) > STEP_NS else 0

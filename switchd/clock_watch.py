"""Is a host's clock right? A message sent at s on the host's clock and received at r on the switch's clock gives
s − r = offset − delay, and delays are never negative: of recent messages the largest s − r is the best estimate, from
below."""

from collections import deque

# A host that has just connected may have been slow for other reasons than its clock.
ENOUGH = 8

# The message that tells a host has no room for more.
FURTHEST_NS = 2**62


class ClockWatch:
    def __init__(self, tolerance_ns: int) -> None:
        self._tolerance_ns = tolerance_ns
        self._recent: deque[int] = deque(maxlen=2 * ENOUGH)

    def observe(self, sent_ns: int, received_ns: int) -> None:
        self._recent.append(max(-FURTHEST_NS, min(sent_ns - received_ns, FURTHEST_NS)))

    @property
    def off_by_ns(self) -> int:
        """The host's clock − the switch's where that exceeds the tolerance, else 0."""
        if len(self._recent) < ENOUGH:
            return 0
        offset_ns = max(self._recent)
        return offset_ns if abs(offset_ns) > self._tolerance_ns else 0

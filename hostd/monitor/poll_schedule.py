"""When to look at a job again. monitor.py has the rules.

    sending      after half of the time it needs for the rest at its speed
    computing    from SOONEST of the shortest compute phase seen lately on
    receiving    after SLOWER_BY of the time it has been waiting, and of the time it will compute: its next burst is
                 seen all the same

Pure. Times are nanoseconds of hostd's own clock.
"""

import math
from collections import deque
from collections.abc import Iterable

from paceline.flowcore.detect.bursts import NEARLY
from paceline.flowcore.messages.events import FlowReady, HostEvent, IterationEnded
from paceline.flowcore.model.units import transfer_ns

LOOK_NS = 2_000_000  # how late a burst may be noticed
SHORTEST_READ_NS = 2 * LOOK_NS
RECEIVING_NS, LONGEST_RECEIVING_NS = 4 * LOOK_NS, 20 * LOOK_NS
SLOWER_BY = 0.25
COUNTERS_NS = 100_000_000  # all sending jobs are read: an iteration may turn out much smaller than the last ones
SOONEST, PHASES = 0.75, 8
FIRST_SAMPLE_NS = 20_000_000_000  # after a job was first seen it is looked at closely for so long,
SAMPLE_NS, SAMPLED_EVERY_NS = 5_000_000_000, 300_000_000_000  # ... and then so long, so often


def is_sampled(age_ns: int, is_known: bool) -> bool:
    """Whether a job first seen so long ago is looked at closely even if no decision depends on it."""
    first_ns = FIRST_SAMPLE_NS if is_known else SAMPLED_EVERY_NS
    return age_ns < first_ns or age_ns % SAMPLED_EVERY_NS < SAMPLE_NS


class PollSchedule:
    def __init__(self) -> None:
        self._ended_ns: int | None = None  # its last iteration, while it computes
        self._compute_ns: deque[int] = deque(maxlen=PHASES)  # how long it computed lately
        self._speed = _Speed()

    def note(self, events: Iterable[HostEvent], now_ns: int) -> None:
        """Compute phases last from an iteration's end to the first flow that is ready."""
        for event in events:
            match event:
                case IterationEnded():
                    self._ended_ns = now_ns
                case FlowReady() if self._ended_ns is not None:
                    self._compute_ns.append(now_ns - self._ended_ns)
                    self._ended_ns = None

    def sending(
        self, left_bytes: float, largest_bytes: float, polled_ns: int, now_ns: int, nic_bps: float | None
    ) -> int:
        """With so much left of the flow that has most to send; `nic_bps`: it was given another rate, and what it sent
        so far says nothing about what it will."""
        left_ns = self._speed.time_left_ns(left_bytes, now_ns)
        if left_bytes <= (1 - NEARLY) * largest_bytes:
            left_ns = 0.0  # or there is nothing left, and it rests
        elif nic_bps is not None:
            left_ns = transfer_ns(left_bytes, nic_bps)
        counters_ns = (polled_ns // COUNTERS_NS + 1) * COUNTERS_NS
        return round(min(now_ns + max(left_ns / 2, SHORTEST_READ_NS), counters_ns))

    def not_sending(self, look_ns: int, joined: bool, moved_ns: int, now_ns: int) -> int:
        """Nothing was sent since `moved_ns`, by a job that has joined or is still learned."""
        if self._ended_ns is not None and self._compute_ns:
            return max(now_ns + look_ns, self._ended_ns + round(SOONEST * min(self._compute_ns)))
        return now_ns + (self._receiving_ns(now_ns - moved_ns) if joined else look_ns)

    def _receiving_ns(self, waited_ns: int) -> int:
        """For a job that has sent everything and waits for other members."""
        least_ns = min(waited_ns, *self._compute_ns) if self._compute_ns else 0
        return min(max(RECEIVING_NS, round(SLOWER_BY * least_ns)), LONGEST_RECEIVING_NS)


class _Speed:
    """Of a job's flow that has most to send, between two readings that are not too close."""

    def __init__(self) -> None:
        self._bytes_per_ns = 0.0
        self._at_ns = 0
        self._left_bytes = 0.0

    def time_left_ns(self, left_bytes: float, now_ns: int) -> float:
        """As fast as it was lately."""
        if now_ns - self._at_ns >= LOOK_NS:
            self._bytes_per_ns = max(0.0, self._left_bytes - left_bytes) / (now_ns - self._at_ns)
            self._at_ns, self._left_bytes = now_ns, left_bytes
        return left_bytes / self._bytes_per_ns if self._bytes_per_ns else math.inf

"""When to look at a job again. monitor.py has the rules.

    sending      after half of the time it needs for the rest at its speed
    computing    from SOONEST of the shortest compute phase seen lately on: after CLOSER of the way to the nearest of
                 those phases, or from it: often where a burst is expected, seldom where it would be a surprise
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
EARLY = 2  # half the time between close looks: so much too early is one that saves a wake-up
SHORTEST_READ = 2  # looks
RECEIVING_NS, LONGEST_RECEIVING_NS = 4 * LOOK_NS, 20 * LOOK_NS
SLOWER_BY = 0.25
COUNTERS_NS = 100_000_000  # all sending jobs are read: an iteration may turn out much smaller than the last ones
SOONEST, PHASES = 0.75, 8
CLOSER, LONGEST_COMPUTING_NS = 0.25, 10 * LOOK_NS  # so much later than it began a surprise is seen
FIRST_SAMPLE_NS = 20_000_000_000  # after a job was first seen it is looked at closely for so long,
SAMPLE_NS, SAMPLED_EVERY_NS = 5_000_000_000, 300_000_000_000  # ... and then so long, so often


def is_sampled(age_ns: int, is_known: bool) -> bool:
    """Whether a job first seen so long ago is looked at closely even if no decision depends on it."""
    first_ns = FIRST_SAMPLE_NS if is_known else SAMPLED_EVERY_NS
    return age_ns < first_ns or age_ns % SAMPLED_EVERY_NS < SAMPLE_NS


class PollSchedule:
    def __init__(self) -> None:
        self._ended_ns: int | None = None  # its last iteration, or burst of one, while it computes
        self._compute_ns: deque[int] = deque(maxlen=PHASES)  # how long it computed lately
        self._speed = _Speed()

    def note(self, events: Iterable[HostEvent], between_bursts: bool, now_ns: int) -> None:
        """Compute phases last from the end of an iteration, or of a burst of it, to the first flow that is ready."""
        for event in events:
            match event:
                case IterationEnded():
                    self._ended_ns = now_ns
                case FlowReady() if self._ended_ns is not None:
                    self._compute_ns.append(now_ns - self._ended_ns)
                    self._ended_ns = None
        if between_bursts and self._ended_ns is None:
            self._ended_ns = now_ns

    def sending(
        self,
        left_bytes: float,
        largest_bytes: float,
        polled_ns: int,
        now_ns: int,
        nic_bps: float | None,
        look_ns: int = LOOK_NS,
    ) -> int:
        """With so much left of the flow that has most to send; `nic_bps`: it was given another rate, and what it sent
        so far says nothing about what it will."""
        left_ns = self._speed.time_left_ns(left_bytes, now_ns)
        if left_bytes <= (1 - NEARLY) * largest_bytes:
            left_ns = 0.0  # or there is nothing left, and it rests
        elif nic_bps is not None:
            left_ns = transfer_ns(left_bytes, nic_bps)
        # Together, and not where it has just been read for a report.
        counters_ns = ((polled_ns + COUNTERS_NS // 2) // COUNTERS_NS + 1) * COUNTERS_NS
        return round(min(now_ns + max(left_ns / 2, SHORTEST_READ * look_ns), counters_ns))

    def not_sending(self, look_ns: int, joined: bool, moved_ns: int, now_ns: int, *, announces: bool = True) -> int:
        """Nothing was sent since `moved_ns`, by a job that has joined or is still learned. One that `announces` its
        bursts loses nothing of one that is seen late."""
        if self._ended_ns is not None and self._compute_ns:
            next_ns = now_ns + (self._computing_ns(now_ns, look_ns) if announces else look_ns)
            soonest_ns = self._ended_ns + round(SOONEST * min(self._compute_ns))
            return soonest_ns if soonest_ns > now_ns + look_ns else next_ns
        return now_ns + (self._receiving_ns(now_ns - moved_ns, look_ns) if joined else look_ns)

    def _computing_ns(self, now_ns: int, look_ns: int) -> int:
        assert self._ended_ns is not None
        distance_ns = min(abs(now_ns - self._ended_ns - phase_ns) for phase_ns in self._compute_ns)
        return max(look_ns, min(round(CLOSER * distance_ns), LONGEST_COMPUTING_NS))

    def _receiving_ns(self, waited_ns: int, look_ns: int) -> int:
        """For a job that has sent everything and waits for other members."""
        least_ns = min(waited_ns, *self._compute_ns) if self._compute_ns else 0
        return max(min(max(RECEIVING_NS, round(SLOWER_BY * least_ns)), LONGEST_RECEIVING_NS), look_ns)


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

"""How far a peer's clock is from ours, from the messages that are exchanged anyway (Cristian).

We send at s, the peer receives at r and answers at t on its clock, we receive at d:

    round trip  = (d − s) − (t − r)          time on the wire, both ways
    offset      = ((r − s) + (t − d)) / 2    peer's clock − ours, wrong by at most half the round trip

Queues only ever add to a round trip, so the sample with the shortest is the truest, unless it is old: two quartz
clocks part by up to 100 µs a second. So the one counts with the least  round trip / 2 + DRIFT · age,  which keeps a
good sample through a minute of overload. A minute of good samples shows the parting as a slope: the skew.
`offset_ns(now)` follows it, so that a peer that falls silent for a while is still timed well.

A sample that cannot be of the same clock as the truest (further off than both can be wrong and quartz can part) is of
another: the peer was restarted elsewhere, or set. What was known of the old one is then forgotten.
"""

from collections import deque
from dataclasses import dataclass

from paceline.flowcore.model.units import NS_PER_MS

# One sample per slot: at 60 ms a window is a second, of which the best sample counts, and a minute of windows
# shows a skew of 1 µs/s against the 100 µs that a sample on a LAN is wrong by.
SAMPLES_PER_WINDOW = 16
WINDOWS = 60

# What two clocks may part by, per second of age.
DRIFT = 100e-6

# No quartz is worse; a larger slope is a step of one of the two clocks, or noise.
MAX_SKEW = 500e-6


@dataclass(frozen=True, slots=True)
class Sample:
    at_ns: int  # our clock, in the middle of the round trip
    offset_ns: float
    round_trip_ns: int


class ClockEstimate:
    """One peer's clock against ours."""

    def __init__(self) -> None:
        self.round_trip_ns = 0  # of the last exchange
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._window: deque[Sample] = deque(maxlen=SAMPLES_PER_WINDOW)
        self._best: deque[Sample] = deque(maxlen=WINDOWS)
        self._count = 0
        self._truest: Sample | None = None
        self.skew = 0.0  # nanoseconds the peer's clock gains on ours per nanosecond

    @property
    def known(self) -> bool:
        return bool(self._window)

    def observe(self, sent_ns: int, peer_received_ns: int, peer_sent_ns: int, received_ns: int) -> None:
        """One exchange. Times that no exchange can have are a peer's mistake and are left out."""
        round_trip_ns = (received_ns - sent_ns) - (peer_sent_ns - peer_received_ns)
        if received_ns < sent_ns or peer_sent_ns < peer_received_ns or round_trip_ns < 0:
            return
        offset_ns = ((peer_received_ns - sent_ns) + (peer_sent_ns - received_ns)) / 2
        self.round_trip_ns = round_trip_ns
        sample = Sample((sent_ns + received_ns) // 2, offset_ns, round_trip_ns)
        if self._truest is not None and not _one_clock(self._truest, sample):
            self._begin_anew()
        self._window.append(sample)
        self._count += 1
        if self._count % SAMPLES_PER_WINDOW == 0:
            self._best.append(min(self._window, key=lambda sample: sample.round_trip_ns))
            self.skew = self._slope()
        # All samples age alike, so the best so far is all there is to compare with.
        if self._truest is None or _doubt_ns(sample) <= _doubt_ns(self._truest):
            self._truest = sample

    def _slope(self) -> float:
        """Least squares through the best sample of each window, but for windows of nothing but queues."""
        shortest_ns = min(sample.round_trip_ns for sample in self._best)
        good = [sample for sample in self._best if sample.round_trip_ns <= 2 * shortest_ns + NS_PER_MS]
        if len(good) < 3:
            return 0.0
        mean_at = sum(sample.at_ns for sample in good) / len(good)
        mean_offset = sum(sample.offset_ns for sample in good) / len(good)
        spread = sum((sample.at_ns - mean_at) ** 2 for sample in good)
        slope = sum((s.at_ns - mean_at) * (s.offset_ns - mean_offset) for s in good)
        return max(-MAX_SKEW, min(MAX_SKEW, slope / spread)) if spread else 0.0

    def offset_ns(self, now_ns: int) -> int:
        """Peer's clock − ours, at this time of ours; 0 while nothing is known."""
        if self._truest is None:
            return 0
        return round(self._truest.offset_ns + self.skew * (now_ns - self._truest.at_ns))


def _doubt_ns(sample: Sample) -> float:
    """How wrong a sample may be, up to the age that all have in common."""
    return sample.round_trip_ns / 2 - DRIFT * sample.at_ns


def _one_clock(one: Sample, other: Sample) -> bool:
    """Whether some clock was read by both."""
    wrong_ns = (one.round_trip_ns + other.round_trip_ns) / 2 + MAX_SKEW * abs(one.at_ns - other.at_ns)
    return abs(one.offset_ns - other.offset_ns) <= wrong_ns + 1  # and a rounding

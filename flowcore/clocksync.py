"""How far a peer's clock is from ours, from the messages that are exchanged anyway (Cristian).

We send at s, the peer receives at r and answers at t on its clock, we receive at d:

    round trip  = (d − s) − (t − r)          time on the wire, both ways
    offset      = ((r − s) + (t − d)) / 2    peer's clock − ours, wrong by at most half the round trip

Queues only ever add to a round trip, so of the recent samples the one with the shortest is the truest. Two quartz
clocks part by up to 100 µs a second, which a minute of samples shows as a slope: the skew. `offset_ns(now)` follows
it, so that a peer that falls silent for a while is still timed well.
"""

from collections import deque
from dataclasses import dataclass

# One sample per slot: at 60 ms a window is a second, of which the best sample counts, and a minute of windows
# shows a skew of 1 µs/s against the 100 µs that a sample on a LAN is wrong by.
SAMPLES_PER_WINDOW = 16
WINDOWS = 60

# No quartz is worse; a larger slope is a step of somebody's clock, or noise.
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
        self._window.append(Sample((sent_ns + received_ns) // 2, offset_ns, round_trip_ns))
        self._truest = min(self._window, key=lambda sample: sample.round_trip_ns)
        self._count += 1
        if self._count % SAMPLES_PER_WINDOW == 0:
            self._best.append(self._truest)
            self.skew = self._slope()

    def _slope(self) -> float:
        if len(self._best) < 3:
            return 0.0
        # Least squares through the best sample of each window.
        mean_at = sum(sample.at_ns for sample in self._best) / len(self._best)
        mean_offset = sum(sample.offset_ns for sample in self._best) / len(self._best)
        spread = sum((sample.at_ns - mean_at) ** 2 for sample in self._best)
        slope = sum((s.at_ns - mean_at) * (s.offset_ns - mean_offset) for s in self._best)
        return max(-MAX_SKEW, min(MAX_SKEW, slope / spread)) if spread else 0.0

    def offset_ns(self, now_ns: int) -> int:
        """Peer's clock − ours, at this time of ours; 0 while nothing is known."""
        if self._truest is None:
            return 0
        return round(self._truest.offset_ns + self.skew * (now_ns - self._truest.at_ns))

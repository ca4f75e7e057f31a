"""B_i, the bandwidth a flow can count on, from what it really sent (MLCC §IV-C).

The paper takes the maximum sending rate of the last four slots, which is BBR's filter: what was sent could be sent,
what was not may have had other reasons. A slot's sample is the rate of its fastest stretch (`Stretches`), as BBR takes
the maximum over samples of single ACKs; with x(k) that of slot k,

    M(k) = max { x(j) : k − 4 < j ≤ k }.

Alone that is a trap, because what a host measures is also what it allows: a flow held at M sends M and stays
there. The paper does not say how it gets out. Here a sample bound by the host's own limit is a lower bound only,
and opens a probe P, which the next sample confirms or ends:

    P(k) = γ · max(B(k−1), x(k))      if x(k) ≥ 0.75 × the limit that the host had set for this stretch,
    P(k) = B(k−1)                     else, if that limit was below 0.75 × B(k−1): nobody has tried how much there is,
    P(k) = 0                          otherwise: the network was the limit, and M knows it;
    B(k) = min(line rate, max(M(k), P(k))).

A slot without a sample leaves P as it is; once M has no sample left, the past is forgotten. Without
samples B is the line rate, as the paper lets a flow's first packets go.

Invariants: 0 ≤ B ≤ line rate; the host's own limit never lowers B, even if only four fifths of it pass; a
failed probe is gone one slot after it began.
"""

from collections import deque
from typing import NamedTuple

from paceline.flowcore.model.units import rate_bps

# γ, the gain of BBR's bandwidth probes, for BBR's reason: three slots find a doubled bandwidth (1.25³ ≈ 2),
# and a slot that probes in vain asks for only a quarter too much, which TCP's own control then holds back.
PROBE_GAIN = 1.25

# A flow that reaches this part of its limit was held by it: a kernel that enforces a limit lets 80 to 100 % of it pass,
# and less where bursts are short. Taken for the network's doing, a few per cent less in every slot would be
# a limit that lowers itself for ever.
LIMITED_SHARE = 0.75

# A stretch lasts at least this long: counters move in steps of what one ACK covers.
SHORTEST_STRETCH_NS = 5_000_000


class Sample(NamedTuple):
    sent_bps: float
    limit_bps: float  # in force meanwhile


class Stretches:
    """A slot of one flow in stretches between readings of its counters, and the fastest of them."""

    __slots__ = ("_allowed_bits_ns", "_busy_ns", "_fastest", "_sent_bytes", "_whole_slots")

    def __init__(self, *, whole_slots: bool = False) -> None:
        self._whole_slots = whole_slots  # a slot is one stretch
        self.begin()

    def begin(self) -> None:
        """A slot, or a burst within it."""
        self._fastest: Sample | None = None
        self._restart()

    def _restart(self) -> None:
        self._sent_bytes = self._allowed_bits_ns = 0.0
        self._busy_ns = 0

    def passed(self, elapsed_ns: int, limit_bps: float) -> None:
        """So long it had data, under this limit."""
        self._busy_ns += elapsed_ns
        self._allowed_bits_ns += limit_bps * elapsed_ns

    def sent(self, fresh_bytes: float, *, counts: bool) -> None:
        """Since the last reading; `counts`: it shows the network, not how fast another flow is."""
        self._sent_bytes += fresh_bytes
        if self._busy_ns >= SHORTEST_STRETCH_NS and not self._whole_slots:
            self._end_stretch(counts)

    def _end_stretch(self, counts: bool) -> None:
        sample = Sample(rate_bps(self._sent_bytes, self._busy_ns), self._allowed_bits_ns / self._busy_ns)
        if counts and (self._fastest is None or sample > self._fastest):
            self._fastest = sample
        self._restart()

    def take(self, *, counts: bool) -> Sample | None:
        """At the end of a slot: its fastest stretch, and where none was long enough all of it; None: no sample."""
        if self._fastest is None and self._busy_ns > 0:
            self._end_stretch(counts)
        fastest = self._fastest
        self.begin()
        return fastest


class BandwidthEstimate:
    """B_i of one flow. Rates are in bits per second."""

    __slots__ = ("_probe_bps", "_samples", "line_rate_bps", "probe_gain", "window_slots")

    def __init__(self, line_rate_bps: float, window_slots: int = 4, probe_gain: float = PROBE_GAIN) -> None:
        self.line_rate_bps = line_rate_bps
        self.window_slots = window_slots
        self.probe_gain = probe_gain
        self._samples: deque[tuple[int, float]] = deque(maxlen=window_slots)  # (slot, x), oldest first
        self._probe_bps = 0.0  # P of the latest sample

    def observe(self, slot: int, sample: Sample) -> None:
        """The fastest stretch of `slot`. Once per slot, in order; a limit of `math.inf` is none."""
        if self._samples and slot <= self._samples[-1][0]:
            raise ValueError(f"slot {slot} observed after slot {self._samples[-1][0]}")
        before_bps = self.value(slot)
        if sample.sent_bps >= LIMITED_SHARE * sample.limit_bps:
            self._probe_bps = self.probe_gain * max(before_bps, sample.sent_bps)
        elif sample.limit_bps < LIMITED_SHARE * before_bps:
            self._probe_bps = before_bps
        else:
            self._probe_bps = 0.0
        self._samples.append((slot, sample.sent_bps))

    def value(self, slot: int) -> float:
        """B_i for planning in `slot`, which is not earlier than the last one observed."""
        oldest_slot = slot - self.window_slots
        recent_bps = [sent_bps for sampled_slot, sent_bps in self._samples if sampled_slot > oldest_slot]
        if not recent_bps:
            return self.line_rate_bps
        return min(self.line_rate_bps, max(self._probe_bps, *recent_bps))

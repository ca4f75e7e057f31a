"""B_i, the bandwidth a flow can count on, from what it really sent (MLCC §IV-C).

With x(k) the rate at which the flow sent in slot k while it had something to send, the paper takes the
maximum of the last four slots (BBR's filter: what was sent could be sent, what was not may have had other
reasons):

    M(k) = max { x(j) : k − 4 < j ≤ k }.

Alone that is a trap, because what a host measures is also what it allows: a flow held at M sends M and stays
there. The paper does not say how it gets out. Here a sample bound by the host's own limit is a lower bound only,
and opens a probe P, which the next sample confirms or ends:

    P(k) = γ · max(B(k−1), x(k))      if x(k) ≥ 0.95 × the limit the host had set in slot k,
    P(k) = 0                          otherwise: the network was the limit, and M knows it;
    B(k) = min(line rate, max(M(k), P(k))).

A slot without a sample leaves P as it is; once M has no sample left, the past is forgotten. Without
samples B is the line rate, as the paper lets a flow's first packets go.

Invariants: 0 ≤ B ≤ line rate; the host's own limit never lowers B; a failed probe is gone one slot after it began.
"""

from collections import deque

from paceline.flowcore.model.units import rate_bps

# γ, the gain of BBR's bandwidth probes, for BBR's reason: three slots find a doubled bandwidth (1.25³ ≈ 2),
# and a slot that probes in vain asks for only a quarter too much, which TCP's own control then holds back.
PROBE_GAIN = 1.25

# A flow that reaches 95 % of its limit was held by it: bursts and the edges of a slot cost a few per cent.
LIMITED_SHARE = 0.95


class BandwidthEstimate:
    """B_i of one flow. Rates are in bits per second."""

    __slots__ = ("_probe_bps", "_samples", "line_rate_bps", "probe_gain", "window_slots")

    def __init__(self, line_rate_bps: float, window_slots: int = 4, probe_gain: float = PROBE_GAIN) -> None:
        self.line_rate_bps = line_rate_bps
        self.window_slots = window_slots
        self.probe_gain = probe_gain
        self._samples: deque[tuple[int, float]] = deque(maxlen=window_slots)  # (slot, x), oldest first
        self._probe_bps = 0.0  # P of the latest sample

    def observe(self, slot: int, sent_bytes: float, busy_ns: int, limit_bps: float) -> None:
        """In the `busy_ns` of `slot` in which it had data, the flow sent `sent_bytes` limited to `limit_bps`.

        Once per slot, in order. `busy_ns` = 0 is an idle slot and no sample; `math.inf` is no limit.
        """
        if self._samples and slot <= self._samples[-1][0]:
            raise ValueError(f"slot {slot} observed after slot {self._samples[-1][0]}")
        if busy_ns <= 0:
            return
        sent_bps = rate_bps(sent_bytes, busy_ns)
        if sent_bps >= LIMITED_SHARE * limit_bps:
            self._probe_bps = self.probe_gain * max(self.value(slot), sent_bps)
        else:
            self._probe_bps = 0.0
        self._samples.append((slot, sent_bps))

    def value(self, slot: int) -> float:
        """B_i for planning in `slot`, which is not earlier than the last one observed."""
        oldest_slot = slot - self.window_slots
        recent_bps = [sent_bps for sampled_slot, sent_bps in self._samples if sampled_slot > oldest_slot]
        if not recent_bps:
            return self.line_rate_bps
        return min(self.line_rate_bps, max(self._probe_bps, *recent_bps))

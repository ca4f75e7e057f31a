"""Where a job that says nothing begins and ends to send, told from what its sockets have moved.

    begins    LEAST_BURST_BYTES have moved, or wait to, since it was quiet
    ends      nothing waits, nothing has moved for QUIET_NS, and it sent as much as its like
    regular   the last ALIKE bursts were of one size

A burst that falls short of its like may be waiting for another member of its job, held up by another job's burst:
it has ended when it stays quiet for a whole period. A job that is not regular gets no limits: there is no telling how
much its next burst will send. Received bytes are movement, too: a member that is fed is in the middle of its exchange.

Invariant: the sizes of all bursts add up to what was sent until the last one's end.
"""

from collections import deque
from statistics import median

QUIET_NS = 20_000_000  # longer than gaps between the buckets of an exchange, shorter than computing
LEAST_BURST_BYTES = 256 * 1024  # less is control
ALIKE = 3
SAME = 0.02  # control messages on the same connections come and go
NEARLY = 0.98  # of its like: one that sent this much and rests has ended


class BurstRhythm:
    """Of one job on one host. Times are nanoseconds of the caller's clock; counters never fall."""

    def __init__(self) -> None:
        self.bursts = 0  # that have ended
        self.sending = False
        self._sizes: deque[float] = deque(maxlen=ALIKE)  # what they sent
        self._periods_ns: deque[int] = deque(maxlen=ALIKE)  # from one's beginning to the next one's
        self._began_ns: int | None = None
        self._moved_ns = 0  # when something last moved
        self._moved_bytes = 0.0  # until then, both ways
        self._sent_before = 0.0  # when the last burst ended ...
        self._moved_before = 0.0  # ... and moved by then, and by what was too small for a burst
        self._known = False

    @property
    def regular(self) -> bool:
        return len(self._sizes) == ALIKE and max(self._sizes) - min(self._sizes) <= SAME * max(self._sizes)

    @property
    def period_ns(self) -> float | None:
        """From the beginning of one burst to the next one's; None as long as it has no rhythm."""
        return float(median(self._periods_ns)) if self.regular and self._periods_ns else None

    def observe(self, now_ns: int, sent_bytes: float, received_bytes: float, waiting_bytes: float) -> None:
        """Counters since the job was first seen, and what waits now."""
        moved_bytes = sent_bytes + received_bytes
        if not self._known:  # in the middle of something: it counts from the next quiet on
            self._known, self._moved_ns = True, now_ns
            self._moved_bytes = self._moved_before = moved_bytes
            self._sent_before = sent_bytes
            return
        quiet_ns = now_ns - self._moved_ns
        if moved_bytes > self._moved_bytes or waiting_bytes > 0:
            if not self.sending and quiet_ns >= QUIET_NS:
                self._moved_before = self._moved_bytes
            self._moved_bytes, self._moved_ns = moved_bytes, now_ns
            if not self.sending and moved_bytes - self._moved_before + waiting_bytes >= LEAST_BURST_BYTES:
                self._begin(now_ns)
        elif self.sending and quiet_ns >= self._patience_ns(sent_bytes):
            self._end(sent_bytes, moved_bytes)

    def _begin(self, now_ns: int) -> None:
        self.sending = True
        if self._began_ns is not None:
            self._periods_ns.append(now_ns - self._began_ns)
        self._began_ns = now_ns

    def _end(self, sent_bytes: float, moved_bytes: float) -> None:
        self.sending = False
        self.bursts += 1
        self._sizes.append(sent_bytes - self._sent_before)
        self._sent_before, self._moved_before = sent_bytes, moved_bytes

    def _patience_ns(self, sent_bytes: float) -> float:
        if self.regular and self._periods_ns and sent_bytes - self._sent_before < NEARLY * median(self._sizes):
            return max(QUIET_NS, median(self._periods_ns))
        return QUIET_NS

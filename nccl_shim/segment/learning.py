"""A job's rhythm, learned from its iteration counter. Law: no clock, no I/O; the same values, the same answer.

Bytes per iteration are a property of the model, so they repeat exactly: the first value after the warm-up
is taken, and a different one replaces it once it came twice in a row (bucket rebuild, other sequence length).
A lone odd iteration (a logging reduction, an evaluation) changes nothing. If nothing repeats (mixture of
experts) the median of the last few is used and `steady` is false. Iteration time is a median, re-learned
when three in a row leave it to the same side.
"""

from collections import deque
from dataclasses import dataclass
from statistics import median_low

from nccl_shim.segment.snapshot import IterationCounter

WARM_UP_ITERATIONS = 2  # DDP's first two carry extra collectives: the third is the first that counts
CONFIRMATIONS = 2
TIME_WINDOW = 8
UNSTEADY_AFTER = 5
TIME_CHANGE = 0.25


@dataclass(frozen=True)
class Learned:
    """What an iteration looks like, `since_iteration`; `changes` counts how often it was learned anew."""

    bytes_per_iteration: int
    tx_bytes_per_iteration: int | None  # on the wire; None until two values were seen
    iteration_ns: int
    steady: bool
    since_iteration: int
    changes: int


class IterationLearner:
    """Give it every value of the iteration counter; skipped and repeated values do no harm."""

    def __init__(self) -> None:
        self._last: IterationCounter | None = None
        self._bytes: int | None = None
        self._odd: deque[int] = deque(maxlen=UNSTEADY_AFTER)
        self._tx: deque[int] = deque(maxlen=TIME_WINDOW)
        self._times_ns: deque[int] = deque(maxlen=TIME_WINDOW)
        self._since = 0
        self._changes = -1
        self._steady = True

    def observe(self, counter: IterationCounter) -> None:
        """Takes a value; one already seen is ignored."""
        last, self._last = self._last, counter
        if last is not None and counter.iteration <= last.iteration:
            return
        if counter.iteration <= WARM_UP_ITERATIONS:
            return
        self._observe_bytes(counter)
        self._observe_time(counter.last_duration_ns)
        if last is not None and last.iteration >= WARM_UP_ITERATIONS:
            # Polls may skip iterations; the mean over those skipped is as good.
            passed = counter.iteration - last.iteration
            self._tx.append((counter.tx_at_start - last.tx_at_start) // passed)

    @property
    def learned(self) -> Learned | None:
        """None until the third iteration has ended."""
        if self._bytes is None:
            return None
        tx = median_low(self._tx) if self._tx else None
        return Learned(self._bytes, tx, median_low(self._times_ns), self._steady, self._since, self._changes)

    def _observe_bytes(self, counter: IterationCounter) -> None:
        value = counter.last_enqueued_bytes
        if value == self._bytes:
            self._odd.clear()
            self._steady = True
            return
        self._odd.append(value)
        repeated = list(self._odd)[-CONFIRMATIONS:] == [value] * CONFIRMATIONS
        if self._bytes is None or repeated:
            self._adopt(value, counter.iteration, steady=True)
        elif len(self._odd) == UNSTEADY_AFTER:
            self._bytes = median_low(self._odd)
            self._steady = False

    def _adopt(self, value: int, iteration: int, steady: bool) -> None:
        self._bytes, self._since, self._steady = value, iteration, steady
        self._changes += 1
        self._odd.clear()
        self._tx.clear()
        self._times_ns.clear()

    def _observe_time(self, duration_ns: int) -> None:
        self._times_ns.append(duration_ns)
        if len(self._times_ns) < 6:
            return
        typical_ns, newest = median_low(self._times_ns), list(self._times_ns)[-3:]
        if min(newest) > typical_ns * (1 + TIME_CHANGE) or max(newest) < typical_ns * (1 - TIME_CHANGE):
            self._times_ns = deque(newest, maxlen=TIME_WINDOW)


class WaitingEstimate:
    """Bytes enqueued and not yet sent, on the wire.

    The hook's own feeds count both sides in the same unit, so the difference is exact. NCCL's proxy counts
    what the network carried, which the ring formula only approximates (protocols add flags, neighbours on the
    same host send nothing), so there the ratio is learned, and the anchor moves whenever more was sent than
    expected: every iteration ends with nothing waiting, which is where the anchor settles.
    """

    def __init__(self) -> None:
        self._ratio = 1.0
        self._anchor = (0, 0)

    def update(
        self,
        enqueued_bytes: int,
        expected_tx_bytes: int,
        tx_bytes: int,
        measured: bool,
        learned: Learned | None,
    ) -> int:
        """`measured`: tx comes from NCCL's proxy, not from completions."""
        if not measured:
            return max(0, expected_tx_bytes - tx_bytes)
        ratio = expected_tx_bytes / enqueued_bytes if enqueued_bytes else 1.0
        if learned is not None and learned.tx_bytes_per_iteration is not None and learned.bytes_per_iteration:
            ratio = learned.tx_bytes_per_iteration / learned.bytes_per_iteration
        if abs(ratio - self._ratio) > 0.01 * max(ratio, self._ratio):
            self._ratio = ratio
            self._anchor = (enqueued_bytes, tx_bytes) if learned is not None else (0, 0)
        enqueued_at, tx_at = self._anchor
        waiting = int(self._ratio * (enqueued_bytes - enqueued_at)) - (tx_bytes - tx_at)
        if waiting < 0:
            self._anchor = (enqueued_bytes, tx_bytes)
        return max(0, waiting)

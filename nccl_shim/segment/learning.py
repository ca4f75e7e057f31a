"""A process's bytes and time an iteration, from the values of its iteration counter. Law: no clock, no I/O; the same
samples, the same answer.

Bytes per iteration are learned by the rule of paceline.flowcore.detect.sizes.SizeLearner. Iteration time is a median,
learned again when three in a row leave it to the same side.
"""

from __future__ import annotations

import operator
from collections import deque
from dataclasses import dataclass
from statistics import median_low

from nccl_shim.segment.snapshot import IterationCounter
from paceline.flowcore.detect.sizes import SizeLearner

WARM_UP_ITERATIONS = 2  # DDP's first two carry extra collectives: the third is the first that counts
TIME_WINDOW = 8
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
        self._bytes: SizeLearner[int] = SizeLearner(operator.eq, median_low)
        self._tx: deque[int] = deque(maxlen=TIME_WINDOW)
        self._times_ns: deque[int] = deque(maxlen=TIME_WINDOW)
        self._since = 0
        self._changes = -1
        self._learned: Learned | None = None

    def observe(self, counter: IterationCounter) -> None:
        """Takes a value; one already seen is ignored."""
        last, self._last = self._last, counter
        if last is not None and counter.iteration <= last.iteration:
            return
        if counter.iteration <= WARM_UP_ITERATIONS:
            return
        if self._bytes.observe(counter.last_enqueued_bytes) and self._bytes.steady:
            self._since, self._changes = counter.iteration, self._changes + 1
            self._tx.clear()
            self._times_ns.clear()
        self._observe_time(counter.last_duration_ns)
        if last is not None and last.iteration >= WARM_UP_ITERATIONS:
            # Polls may skip iterations; the mean over those skipped is as good.
            passed = counter.iteration - last.iteration
            self._tx.append((counter.tx_at_start - last.tx_at_start) // passed)
        self._learned = self._learn()

    @property
    def learned(self) -> Learned | None:
        """None until the third iteration has ended."""
        return self._learned

    def _learn(self) -> Learned | None:
        size_bytes = self._bytes.size
        if size_bytes is None:
            return None
        tx = median_low(self._tx) if self._tx else None
        return Learned(size_bytes, tx, median_low(self._times_ns), self._bytes.steady, self._since, self._changes)

    def _observe_time(self, duration_ns: int) -> None:
        self._times_ns.append(duration_ns)
        if len(self._times_ns) < 6:
            return
        typical_ns, newest = median_low(self._times_ns), list(self._times_ns)[-3:]
        if min(newest) > typical_ns * (1 + TIME_CHANGE) or max(newest) < typical_ns * (1 - TIME_CHANGE):
            self._times_ns = deque(newest, maxlen=TIME_WINDOW)

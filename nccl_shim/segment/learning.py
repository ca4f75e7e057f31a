"""What repeats, learned from samples. Law: no clock, no I/O; the same samples, the same answer.

    SizeLearner        the first sample is taken; another size replaces it once it came twice in a row;
                       of five in a row that never agree, the typical one
    IterationLearner   a process's bytes and time an iteration, from the values of its iteration counter

Bytes per iteration are a property of the model, so they repeat exactly. A lone odd iteration (a logging reduction, an
evaluation) changes nothing; a rebuilt bucket or another sequence length does. If nothing repeats (mixture of experts)
the median of the last five is used and `steady` is false. Iteration time is a median, learned again when three in a
row leave it to the same side.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Generic, TypeVar

from nccl_shim.segment.snapshot import IterationCounter

WARM_UP_ITERATIONS = 2  # DDP's first two carry extra collectives: the third is the first that counts
AGREEING = 2  # samples alike before another size is believed than the first
MOST_SAMPLES = 5  # that never agree, before the typical one is believed
TIME_WINDOW = 8
TIME_CHANGE = 0.25

Size = TypeVar("Size")


class SizeLearner(Generic[Size]):
    """`size` is what to expect, None before the first sample; `steady` is whether it repeats.

    A size may be a number or a mapping of many: `alike` says whether two are the same, `typical` finds the middle of
    several.
    """

    def __init__(self, alike: Callable[[Size, Size], bool], typical: Callable[[Sequence[Size]], Size]) -> None:
        self.size: Size | None = None
        self.steady = True
        self._alike, self._typical = alike, typical
        self._odd: deque[Size] = deque(maxlen=MOST_SAMPLES)  # that differ from `size`, since the last that did not

    def observe(self, sample: Size) -> bool:
        """Takes the next sample; returns whether `size` was learned anew by it."""
        if self.size is not None and self._alike(sample, self.size):
            self._odd.clear()
            self.steady = True
            return False
        self._odd.append(sample)
        recent = list(self._odd)[-AGREEING:]
        if self.size is None or (len(recent) == AGREEING and all(self._alike(one, sample) for one in recent)):
            self.size, self.steady = sample, True
            self._odd.clear()
            return True
        if len(self._odd) == MOST_SAMPLES:
            self.size, self.steady = self._typical(self._odd), False
            return True
        return False

    def forget_samples(self) -> None:
        """`size` holds until new samples disagree with it; after a typical size: five of them."""
        self._odd.clear()


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

    @property
    def learned(self) -> Learned | None:
        """None until the third iteration has ended."""
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

"""A size that repeats, learned from samples: the first is taken, another replaces it once it came twice in a row, and
of five in a row that never agree the typical one.

Bytes per iteration are a property of the model, so they repeat. A lone odd iteration (a logging reduction, an
evaluation) changes nothing; a rebuilt bucket or another sequence length does. If nothing repeats (mixture of experts)
the typical one of the last five is used and `steady` is false.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

AGREEING = 2  # samples alike before another size is believed than the first
MOST_SAMPLES = 5  # that never agree, before the typical one is believed

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

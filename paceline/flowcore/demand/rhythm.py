"""Iterations of a job that marks none (JAX, programs of plain NCCL), told from its shim's count of sent bytes alone.

    rest         nothing moves; c_0 < c_1 < … are the bytes sent by each rest
    rhythm       an S with rests at c, c − S, c − 2S and c − 3S for the c of now, and at r − S for the rests r lately:
                 the smallest S where nearly all have one; where none is as good for long, the best that has most
    iterations   ⌊(c − base) / S⌋, where base was such a c, and follows the rests at its multiples
    lost         when LOST multiples of S have been passed without a rest at one, or MOST_AT_ONCE between two looks

It does not matter how an iteration is cut into bursts, nor that two of them run into one now and then: where it ends a
job rests, again and again, and it sends the same each time. An iteration of equal bursts counts as several of one
burst: as good for taking turns. Counts of the shim are exact, so that rests at the same point are the same within SAME.

Pure. A job without a rhythm has no iterations, and is left to TCP.
"""

from bisect import bisect_left
from collections import deque

ALIKE = 3
SAME = 0.005  # of S: a barrier, a loss that is summed up
KEPT_RESTS = 128
CLEAN, CLEAN_RESTS = 0.95, 8  # this part of so many rests, and of those within ALIKE sizes
MOSTLY, MOSTLY_RESTS = 0.7, 32
LOST, MOST_AT_ONCE = 8, 10_000  # no look is so long after another: a count that leaps is none
LEAST_BYTES = 256 * 1024  # less is control


class IterationRhythm:
    def __init__(self) -> None:
        self.iterations = 0  # that have ended
        self.size_bytes: float | None = None  # S; None: it has no rhythm
        self._rests: deque[float] = deque(maxlen=KEPT_RESTS)  # rising
        self._base = 0.0
        self._passed = 0  # multiples of S since a rest was at one

    def observe(self, sent_bytes: float, resting: bool) -> None:
        """What the shim has counted so far."""
        if not resting or (self._rests and sent_bytes - self._rests[-1] < LEAST_BYTES):
            return
        self._rests.append(sent_bytes)
        if self.size_bytes is None:
            self._find(sent_bytes)
        else:
            self._count(sent_bytes, self.size_bytes)

    def _find(self, now_bytes: float) -> None:
        rests = list(self._rests)
        sizes = [now_bytes - rest for rest in reversed(rests[:-1])]
        sizes = [size for size in sizes if all(_has(rests, now_bytes - n * size, size) for n in range(2, ALIKE + 1))]
        found = next((size for size in sizes if _repeated(rests, size, CLEAN_RESTS) >= CLEAN), None)
        if found is None and sizes and len(rests) >= MOSTLY_RESTS:
            best = max(sizes, key=lambda size: _repeated(rests, size, MOSTLY_RESTS))
            found = best if _repeated(rests, best, MOSTLY_RESTS) >= MOSTLY else None
        if found is not None:
            self.size_bytes, self._base, self._passed = found, now_bytes, 0
            self.iterations += 1

    def _count(self, now_bytes: float, size: float) -> None:
        ended = int((now_bytes - self._base) / size + SAME)
        if ended > MOST_AT_ONCE:
            self._lose()
            return
        self.iterations += ended
        self._base += ended * size
        if abs(now_bytes - self._base) <= SAME * size:
            self._base, self._passed = now_bytes, 0
        else:
            self._passed += ended
        if self._passed >= LOST:
            self._lose()

    def _lose(self) -> None:
        self.size_bytes = None
        self._rests.clear()


def _has(rising: list[float], value: float, size: float) -> bool:
    """A rest there, as far as that can be told."""
    at = bisect_left(rising, value - SAME * size)
    return at < len(rising) and rising[at] <= value + SAME * size


def _repeated(rests: list[float], size: float, least: int) -> float:
    """Which part of the last rests has another one a size before."""
    first = min(bisect_left(rests, rests[-1] - ALIKE * size), max(0, len(rests) - least))
    lately = [rest for rest in rests[first:] if rest - size >= rests[0] - SAME * size]
    return sum(_has(rests, rest - size, size) for rest in lately) / len(lately)

"""Numbers of flows and jobs in C: used again, but not while messages about whoever had them may be on their way."""

from collections import deque

from paceline.flowcore.model.units import NS_PER_S

REST_NS = 10 * NS_PER_S


class Numbers:
    def __init__(self) -> None:
        self._count = 0
        self._resting: deque[tuple[int, int]] = deque()  # since when, and which

    def take(self, now_ns: int) -> int:
        if self._resting and self._resting[0][0] + REST_NS <= now_ns:
            return self._resting.popleft()[1]
        self._count += 1
        return self._count - 1

    def give_back(self, number: int, now_ns: int) -> None:
        self._resting.append((now_ns, number))

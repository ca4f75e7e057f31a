"""GPUs shared in turn (Ada-SRSF, Algorithm 3, lines 22-30): an idle GPU computes for the ready job that needs least.

A worker's compute phase is a piece on each of its GPUs, in any order; a piece that has begun is not interrupted.
Deviation: forward and backward pass are one piece here, two in the paper.
"""

import heapq
from collections.abc import Callable, Iterable
from itertools import count

from paceline.cluster.shared import Gpu


class SharedGpus:
    def __init__(self, at: Callable[[int, Callable[[], None]], None]) -> None:
        self._at = at
        self._busy: set[Gpu] = set()
        self._waiting: dict[Gpu, list[tuple[float, int, int, Callable[[int], None]]]] = {}
        self._sequence = count()

    def compute(
        self, gpus: Iterable[Gpu], lasts_ns: int, service_s: float, now_ns: int, done: Callable[[], None]
    ) -> None:
        """`done` when all of these GPUs have done their pieces; least service first."""
        left = set(gpus)

        def ended(gpu: Gpu, end_ns: int) -> None:
            left.discard(gpu)
            self._busy.discard(gpu)
            self._next(gpu, end_ns)
            if not left:
                done()

        for gpu in sorted(left):
            piece = service_s, next(self._sequence), lasts_ns, lambda end_ns, gpu=gpu: ended(gpu, end_ns)
            heapq.heappush(self._waiting.setdefault(gpu, []), piece)
            self._next(gpu, now_ns)

    def _next(self, gpu: Gpu, now_ns: int) -> None:
        if gpu in self._busy or not self._waiting[gpu]:
            return
        _, _, lasts_ns, ended = heapq.heappop(self._waiting[gpu])
        self._busy.add(gpu)
        self._at(now_ns + lasts_ns, lambda: ended(now_ns + lasts_ns))

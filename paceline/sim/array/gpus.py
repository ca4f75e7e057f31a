"""GPUs shared in turn (Ada-SRSF, Algorithm 3, lines 22-30): an idle GPU computes for the ready job that needs least.

A worker's compute phase is a piece on each of its GPUs, in any order; a piece that has begun is not interrupted.
Deviation: forward and backward pass are one piece here, two in the paper.
"""

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from paceline.cluster.gpu_sharing import Gpu
from paceline.sim.array.control import Action, At

Piece = tuple[float, int, int, Callable[[int], None]]  # service left, sequence, how long it lasts, what to do then


class SharedGpus:
    def __init__(self, at: At) -> None:
        self._at = at
        self._busy: set[Gpu] = set()
        self._waiting: dict[Gpu, list[Piece]] = {}
        self._sequence = count()

    def compute(self, gpus: Iterable[Gpu], lasts_ns: int, service_s: float, now_ns: int, done: Action) -> None:
        """`done` when all of these GPUs have done their pieces; least service first."""
        left = set(gpus)

        def ended(gpu: Gpu, end_ns: int) -> None:
            left.discard(gpu)
            self._busy.discard(gpu)
            self._next(gpu, end_ns)
            if not left:
                done()

        for gpu in sorted(left):
            piece: Piece = service_s, next(self._sequence), lasts_ns, partial(ended, gpu)
            heapq.heappush(self._waiting.setdefault(gpu, []), piece)
            self._next(gpu, now_ns)

    def _next(self, gpu: Gpu, now_ns: int) -> None:
        if gpu in self._busy or not self._waiting[gpu]:
            return
        _, _, lasts_ns, ended = heapq.heappop(self._waiting[gpu])
        self._busy.add(gpu)
        self._at(now_ns + lasts_ns, lambda: ended(now_ns + lasts_ns))

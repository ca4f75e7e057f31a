"""Wrappers: a scheduler that changes one thing of another scheduler, so that ideas of several papers combine.

ShortestFirst    the order: first the job with the least remaining service (Ada-SRSF §IV-A, SRSF)
Interleaved      the place: of placements as good to the inner scheduler, that whose jobs interleave best (CASSINI §4.2)
Arranged         which worker is where on the servers of a job: matched with the collective's pattern, as Titan does
"""

from collections.abc import Callable, Mapping, Sequence

from paceline.cluster.cassini.candidates import candidates
from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers.base import Scheduler
from paceline.cluster.state import ClusterState, Workers
from paceline.flowcore.allocation.gates.srsf import remaining_service_s

# Which of these placements of a job is best, beside the jobs that are placed
Choose = Callable[[Job, Sequence[Workers], Mapping[str, Workers]], int]


def first(job: Job, ways: Sequence[Workers], placed: Mapping[str, Workers]) -> int:
    return 0


class SchedulerWrapper(Scheduler):
    def __init__(self, inner: Scheduler) -> None:
        self.inner = inner
        self.backfill, self.tenure_s, self.moves = inner.backfill, inner.tenure_s, inner.moves

    def rank(self, job: Job, now_s: float) -> float:
        return self.inner.rank(job, now_s)

    def place(self, job: Job, offer: Offer) -> Workers | None:
        return self.inner.place(job, offer)

    def accepted(self, job: Job, workers: Workers, offer: Offer) -> None:
        self.inner.accepted(job, workers, offer)

    def move(self, job: Job, workers: Workers, offer: Offer) -> Workers | None:
        return self.inner.move(job, workers, offer)

    def arrange(self, job: Job, workers: Workers) -> tuple[str, ...]:
        return self.inner.arrange(job, workers)


class ShortestFirst(SchedulerWrapper):
    def rank(self, job: Job, now_s: float) -> float:
        """Before a job is placed, what it communicates is not known: E_J = 0."""
        return remaining_service_s(job.gpus, job.iterations - job.iterations_done, job.compute_s, 0.0)


class Arranged(SchedulerWrapper):
    def __init__(self, inner: Scheduler, arranging: Scheduler) -> None:
        super().__init__(inner)
        self._arranging = arranging

    def arrange(self, job: Job, workers: Workers) -> tuple[str, ...]:
        return self._arranging.arrange(job, workers)


class Interleaved(SchedulerWrapper):
    def __init__(self, inner: Scheduler, choose: Choose) -> None:
        super().__init__(inner)
        self._choose = choose

    def place(self, job: Job, offer: Offer) -> Workers | None:
        def placed(state: ClusterState) -> Workers | None:
            return self.inner.place(job, Offer(state, offer.now_s, offer.behind))

        ways = candidates(placed, offer.state)
        return ways[self._choose(job, ways, offer.state.placed)] if ways else None

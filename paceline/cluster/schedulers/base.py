"""A scheduler says which job is first (`rank`), where a job goes (`place`) and whether it should move (`move`).

    rank     lower is offered GPUs earlier; equal ranks go in the order of arrival. A job may take GPUs from a job of
             strictly higher rank that has held them for `tenure_s`
    place    the workers, or None: wait. It may be asked more often than it is obeyed
    accepted the job got the workers that `place` found: what a scheduler remembers, it learns here
    move     for a running job past its tenure: better workers, or None: stay. Its own GPUs are free in the offer
    arrange  which server each worker is on, worker by worker: what a collective's pattern is matched with

The defaults are first come, first served without preemption: what a plain `place(job, state)` needs.
"""

from abc import ABC, abstractmethod
from math import inf

from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.placement import Placement
from paceline.cluster.state import Workers


class Scheduler(ABC):
    backfill = True  # a job that fits may overtake a job that does not
    tenure_s = inf  # how long a job keeps its GPUs before it may be stopped; inf: it never is
    moves = False  # running jobs may move: worth a round though no job waits

    def rank(self, job: Job, now_s: float) -> float:
        return 0.0

    @abstractmethod
    def place(self, job: Job, offer: Offer) -> Workers | None: ...

    def accepted(self, job: Job, workers: Workers, offer: Offer) -> None:  # noqa: B027 - most schedulers remember nothing
        pass

    def move(self, job: Job, workers: Workers, offer: Offer) -> Workers | None:
        return None

    def arrange(self, job: Job, workers: Workers) -> tuple[str, ...]:
        return tuple(server for server, gpus in workers.items() for _ in range(gpus))


class FirstComeFirstServed(Scheduler):
    """A placement, first come, first served."""

    def __init__(self, placement: Placement, *, backfill: bool = False) -> None:
        self._placement = placement
        self.backfill = backfill

    def place(self, job: Job, offer: Offer) -> Workers | None:
        return self._placement(job, offer.state)

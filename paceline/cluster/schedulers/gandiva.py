"""Gandiva as Dally compares with it (§V-C): any free GPUs at once; jobs move to a better tier when GPUs fall free.

Jobs share time: a job that has had fewer time slices goes before a job that has had more, and takes its GPUs when that
job's slice is over. Gandiva ignores the network when it places a job, and considers it only when it moves one.

gandiva-stay is Gandiva without moves: what they are worth shows beside it.
"""

from paceline.cluster.delay import HOUR_S
from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers.base import Scheduler
from paceline.cluster.state import Workers, fill
from paceline.cluster.tiers import Tier, find, tier_of


class Gandiva(Scheduler):
    tenure_s = HOUR_S  # a time slice

    def __init__(self, *, moves: bool = True) -> None:
        self.moves = moves

    def rank(self, job: Job, now_s: float) -> float:
        return job.run_s // self.tenure_s

    def place(self, job: Job, offer: Offer) -> Workers | None:
        return offer.least_disturbing(lambda free: fill(list(free), job.gpus, free))

    def move(self, job: Job, workers: Workers, offer: Offer) -> Workers | None:
        better = (tier for tier in Tier if tier < tier_of(workers, offer.state.rack_of))
        found = (find(tier, job.gpus, offer.state.free, offer.state.rack_of) for tier in better)
        return next((moved for moved in found if moved is not None), None)


VARIANTS = {"gandiva": Gandiva, "gandiva-stay": lambda: Gandiva(moves=False)}

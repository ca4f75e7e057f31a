"""Dally: delay scheduling over network tiers, offers and preemption by network sensitivity (§IV).

    Nw_sens = (I_compl / I_total) / (T_run / (I_total · compute))  =  I_compl · compute / T_run

is the share of its running time that a job computed. Offers are made in increasing order: the job that lost most to
the network is asked first and may take GPUs from jobs that lose less. Offers go to jobs that wait, and a job runs until
it is preempted or through. A job that has not run yet has lost nothing: 1. (0, the limit as a run begins, would let
every new job stop a running one, and jobs that compute all the time would come last: tried on
workloads/dally/dally.toml, the mean JCT doubled or worse.)

    dally         timers tuned from what jobs waited      dally-nowait   both timers 0
    dally-manual  12 h for a machine, 24 h for a rack     dally-full     waits for its best tier for ever

    dally-move    ours: as dally, and a running job is offered a better tier, too, and moves there

    dally-queue, dally-full-queue    no job overtakes one that waits for a better tier: what waiting costs shows here
"""

from collections.abc import Callable

from paceline.cluster.delay import FULLY_CONSOLIDATED, HOUR_S, MANUAL, NO_WAIT, AutoTuner, Timers
from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers.base import Scheduler
from paceline.cluster.state import Workers
from paceline.cluster.tiers import Tier, best_tier, find, tier_of


def nw_sens(job: Job) -> float:
    return job.iterations_done * job.compute_s / job.run_s if job.run_s else 1.0


class Dally(Scheduler):
    tenure_s = HOUR_S  # long beside saving and restoring a model, short beside the days a job lasts

    def __init__(self, timers: Timers | None = None, *, moves: bool = False, backfill: bool = True) -> None:
        self._fixed, self.moves, self.backfill = timers, moves, backfill
        self.tuner = AutoTuner()
        self._best: dict[int, Tier] = {}  # by GPU demand; the cluster does not change

    def rank(self, job: Job, now_s: float) -> float:
        return nw_sens(job)

    def place(self, job: Job, offer: Offer) -> Workers | None:
        """Algorithm 1. On each tier, free GPUs come first, then those of the jobs that lost least."""
        waited_s = offer.now_s - job.waiting_since_s
        if job.gpus not in self._best:
            self._best[job.gpus] = best_tier(job.gpus, offer.state.gpus_per_server, offer.state.rack_of)
        timers = (self._fixed or self.tuner.timers(job.gpus, offer.now_s)).for_best(self._best[job.gpus])
        for tier in Tier:
            if timers.accepts(tier, waited_s):
                workers = self._on(tier, job, offer)
                if workers is not None:
                    return workers
        return None

    def accepted(self, job: Job, workers: Workers, offer: Offer) -> None:
        tier = tier_of(workers, offer.state.rack_of)
        if tier is not Tier.NETWORK:
            self.tuner.update_demand_delay(tier, offer.now_s - job.waiting_since_s, job.gpus, offer.now_s)

    def move(self, job: Job, workers: Workers, offer: Offer) -> Workers | None:
        better = (tier for tier in Tier if tier < tier_of(workers, offer.state.rack_of))
        found = (self._on(tier, job, offer) for tier in better)
        return next((moved for moved in found if moved is not None), None)

    def _on(self, tier: Tier, job: Job, offer: Offer) -> Workers | None:
        return offer.least_disturbing(lambda free: find(tier, job.gpus, free, offer.state.rack_of))


VARIANTS: dict[str, Callable[[], Dally]] = {
    "dally": Dally,
    "dally-manual": lambda: Dally(MANUAL),
    "dally-nowait": lambda: Dally(NO_WAIT),
    "dally-full": lambda: Dally(FULLY_CONSOLIDATED),
    "dally-move": lambda: Dally(moves=True),
    "dally-queue": lambda: Dally(backfill=False),
    "dally-full-queue": lambda: Dally(FULLY_CONSOLIDATED, backfill=False),
}

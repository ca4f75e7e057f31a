"""Themis as CASSINI runs it (§4.2, §5.1): finish-time fairness, leases, and no more of the network than racks.

    ρ = (waited and ran so far + what is left at its pace) / what it takes alone

The job that is farthest behind is asked first, and takes the GPUs of jobs whose lease is over and which are less far
behind. Where a job goes, Themis knows one penalty: the workers are on a machine, in a rack, or across racks. Which
servers of the best of these it has makes no difference to it, and is drawn: all of them are candidates for CASSINI. A
job whose lease is over bids again, and moves if there is a better tier.

    themis           leases of ten minutes (§5.1)        themis-minute    of one: the jobs of §5.1 last one to eight

Deviations: a job has as many workers as it asks for, always, and what is left counts at the pace a job had so far.
"""

from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers.base import Scheduler
from paceline.cluster.state import Workers, gather
from paceline.cluster.tiers import Tier, find, tier_of

MINUTE_S = 60.0
EPOCH_S = 10 * MINUTE_S


def unfairness(job: Job, now_s: float) -> float:
    """ρ."""
    alone_s = job.iterations * job.compute_s
    pace_s = job.run_s / job.iterations_done if job.iterations_done else job.compute_s
    left_s = (job.iterations - job.iterations_done) * pace_s
    return (now_s - job.arrival_s + left_s) / alone_s if alone_s else 0.0


class Themis(Scheduler):
    moves = True

    def __init__(self, lease_s: float = EPOCH_S) -> None:
        self.tenure_s = lease_s

    def rank(self, job: Job, now_s: float) -> float:
        return -unfairness(job, now_s)

    def place(self, job: Job, offer: Offer) -> Workers | None:
        return self._best(job, offer, tuple(Tier))

    def move(self, job: Job, workers: Workers, offer: Offer) -> Workers | None:
        now = tier_of(workers, offer.state.rack_of)
        return self._best(job, offer, tuple(tier for tier in Tier if tier < now))

    def _best(self, job: Job, offer: Offer, tiers: tuple[Tier, ...]) -> Workers | None:
        for tier in tiers:
            found = offer.least_disturbing(lambda free, tier=tier: self._on(tier, job, offer, free))  # type: ignore[misc]
            if found is not None:
                return found
        return None

    def _on(self, tier: Tier, job: Job, offer: Offer, free: Workers) -> Workers | None:
        """Drawn from all that are on this tier."""
        state = offer.state
        if tier is Tier.NETWORK:
            gpus = [server for server, idle in free.items() for _ in range(idle)]
            if len(gpus) < job.gpus:
                return None
            place = {server: number for number, server in enumerate(state.rack_of)}
            drawn = state.draws.sample(gpus, job.gpus)
            return gather(sorted(drawn, key=place.__getitem__))  # a ring goes from rack to rack once
        servers = list(free)
        state.draws.shuffle(servers)
        return find(tier, job.gpus, {server: free[server] for server in servers}, state.rack_of)


VARIANTS = {"themis": Themis, "themis-minute": lambda: Themis(MINUTE_S)}

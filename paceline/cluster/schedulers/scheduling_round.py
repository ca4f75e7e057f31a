"""One round of scheduling: which jobs stop, which start and where. A pure function; the driver performs what it says.

All jobs that wait, and those that run and are past their tenure, are taken in the order of their ranks. Each is offered
what is free and what jobs of strictly higher rank hold. A job that is stopped for it comes later in the same round, and
may start again elsewhere. Invariant: no GPU has two holders, before, within and after the round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers.base import Scheduler
from paceline.cluster.state import ClusterState, Workers


@dataclass(frozen=True, slots=True)
class Decision:
    stop: tuple[str, ...]  # first these, then
    start: tuple[tuple[str, Workers], ...]  # these; a job that is in both moves


def decide(
    scheduler: Scheduler, now_s: float, waiting: Sequence[Job], running: Sequence[Job], state: ClusterState
) -> Decision:
    stoppable = [job for job in running if now_s - job.running_since_s >= scheduler.tenure_s]
    rank_of = {job.name: scheduler.rank(job, now_s) for job in (*waiting, *stoppable)}

    def turn(job: Job) -> tuple[float, float]:
        return rank_of[job.name], job.arrival_s

    round_ = _Round(Offer(state.copy(), now_s), sorted(stoppable, key=turn), rank_of)
    for job in sorted((*waiting, *stoppable), key=turn):
        round_.only_behind(rank_of[job.name])
        if not round_.consider(scheduler, job) and not scheduler.backfill and not job.running:
            break
    return round_.decision()


class _Round:
    """The round so far: the offer, the jobs that may still be stopped, and what has been decided."""

    def __init__(self, offer: Offer, stoppable: list[Job], rank_of: Mapping[str, float]) -> None:
        self.offer, self._rank_of = offer, rank_of
        self._stopped: dict[str, Workers] = {}
        self._started: dict[str, Workers] = {}
        offer.behind = [job.name for job in stoppable]  # the highest rank last
        self._reachable_gpus = sum(job.gpus for job in stoppable)

    def only_behind(self, rank: float) -> None:
        """Jobs that do not rank strictly higher are out of reach from here on."""
        behind = self.offer.behind
        while behind and self._rank_of[behind[0]] <= rank:
            self._reachable_gpus -= sum(self.offer.state.placed[behind.pop(0)].values())

    def consider(self, scheduler: Scheduler, job: Job) -> bool:
        """One job's turn; False if it goes without GPUs."""
        offer, state = self.offer, self.offer.state
        if job.running and job.name not in self._stopped:
            if not scheduler.moves:
                return True
            workers = state.placed[job.name]
            state.give_back(job.name)
            better = scheduler.move(job, workers, offer)
            if better is None:
                state.take(job.name, workers)
                return True
            self._stopped[job.name] = workers
        else:
            enough = state.free_gpus + self._reachable_gpus >= job.gpus
            better = scheduler.place(job, offer) if enough else None
            if better is None:
                return False
            scheduler.accepted(job, better, offer)
        self._clear(better)
        state.take(job.name, better)
        self._started[job.name] = better
        return True

    def decision(self) -> Decision:
        stays = {name for name, workers in self._started.items() if self._stopped.get(name) == workers}
        return Decision(
            tuple(name for name in self._stopped if name not in stays),
            tuple((name, workers) for name, workers in self._started.items() if name not in stays),
        )

    def _clear(self, workers: Workers) -> None:
        """Stop as many jobs as needed, those of the highest rank first."""
        state, behind = self.offer.state, self.offer.behind
        for server, gpus in workers.items():
            while state.free[server] < gpus:
                victim = next(name for name in reversed(behind) if server in state.placed[name])
                behind.remove(victim)
                self._reachable_gpus -= sum(state.placed[victim].values())
                self._stopped[victim] = state.placed[victim]
                state.give_back(victim)

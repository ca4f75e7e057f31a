"""Titan: fragments before idle machines, workers matched with the collective's pattern (paceline/cluster/titan/).

A job whose collective exceeds the bandwidth on every division would wait for ever; it gets the fewest idle machines,
which is the best there is for it, or waits for those.
"""

from collections.abc import Callable
from dataclasses import replace

from paceline.cluster.collectives import COLLECTIVES, totals
from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers.base import Scheduler
from paceline.cluster.state import Workers
from paceline.cluster.titan.greedy import solve
from paceline.cluster.titan.nimp import Problem, unlimited
from paceline.cluster.titan.partition import partition
from paceline.flowcore.model.units import bytes_from_mb


class Titan(Scheduler):
    backfill = False

    def __init__(
        self, collective: str = "halving-doubling", limit_bytes: Callable[[str, str], float] = unlimited
    ) -> None:
        self._phases = COLLECTIVES[collective]
        self._limit_bytes = limit_bytes  # P_{s,s'}

    def place(self, job: Job, offer: Offer) -> Workers | None:
        phases = self._phases(job.gpus, bytes_from_mb(job.model_mb))
        problem = Problem(offer.state.free, offer.state.gpus_per_server, job.gpus, phases, self._limit_bytes)
        assignment = solve(problem)
        if assignment is None and offer.state.free_gpus >= job.gpus:
            idle = {machine: free for machine, free in offer.state.free.items() if problem.idle(machine)}
            assignment = solve(replace(problem, free=idle, limit_bytes=unlimited))
        if assignment is None:
            return None
        return {machine: assignment.count(machine) for machine in dict.fromkeys(assignment)}

    def arrange(self, job: Job, workers: Workers) -> tuple[str, ...]:
        phases = self._phases(job.gpus, bytes_from_mb(job.model_mb))
        machines = list(workers)
        return tuple(machines[place] for place in partition(job.gpus, list(workers.values()), totals(phases)))

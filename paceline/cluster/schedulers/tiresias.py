"""Tiresias: least attained service in two dimensions, discretized, and consolidation by skew (Dally §III-B, §III-D).

    2DAS = GPUs × time run. A job sinks to the next queue as it passes a threshold; lower queues go first and preempt;
           within a queue, first come, first served. A job that waited long beside what it ran rises to the top.

Skewed models (one tensor is most of them) get the fewest machines possible or wait; other models take any free GPUs.
Which machine the rest of a job gets no paper says: with `tiresias` the tightest, with `tiresias-exact` one that
it fills, or else an idle one (`elasticflow.py` has the same two readings).
"""

from paceline.cluster.delay import HOUR_S
from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers.base import Scheduler
from paceline.cluster.state import Workers, fill

QUEUES_GPU_S = (1 * HOUR_S, 10 * HOUR_S)  # thresholds of the discretized queues
PROMOTE_AFTER = 8.0  # times as long waiting as it ever ran: the job starves


class Tiresias(Scheduler):
    tenure_s = 0.0  # the queues keep jobs from taking turns too often

    def __init__(self, *, exact: bool = False) -> None:
        self._together = consolidated_exactly if exact else consolidated

    def rank(self, job: Job, now_s: float) -> float:
        if not job.running and job.run_s and now_s - job.waiting_since_s > PROMOTE_AFTER * job.run_s:
            return 0.0
        return float(sum(job.gpus * job.run_s >= threshold for threshold in QUEUES_GPU_S))

    def place(self, job: Job, offer: Offer) -> Workers | None:
        if job.skewed:
            return offer.least_disturbing(lambda free: self._together(job.gpus, free, offer.state.gpus_per_server))
        return offer.least_disturbing(lambda free: fill(list(free), job.gpus, free))


def consolidated(gpus: int, free: Workers, gpus_per_server: int) -> Workers | None:
    """The fewest machines that can hold the job: whole ones, and the tightest for the rest."""
    whole, rest = divmod(gpus, gpus_per_server)
    chosen = [server for server, idle in free.items() if idle == gpus_per_server][:whole]
    if len(chosen) < whole:
        return None
    workers = dict.fromkeys(chosen, gpus_per_server)
    if rest:
        fitting = [server for server, idle in free.items() if idle >= rest and server not in workers]
        if not fitting:
            return None
        workers[min(fitting, key=free.__getitem__)] = rest
    return workers


def consolidated_exactly(gpus: int, free: Workers, gpus_per_server: int) -> Workers | None:
    """The same number of machines, and for the rest one that it fills, or an idle one: pieces are left for jobs that
    fill them. Where no machine is idle, as above."""
    whole, rest = divmod(gpus, gpus_per_server)
    idle = [server for server, left in free.items() if left == gpus_per_server]
    exact = [server for server, left in free.items() if rest and left == rest]
    last = (exact or idle[whole:])[:1] if rest else []
    if len(idle) < whole or (rest and not last):
        return consolidated(gpus, free, gpus_per_server)
    return dict.fromkeys(idle[:whole], gpus_per_server) | dict.fromkeys(last, rest)

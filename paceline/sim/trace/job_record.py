"""The record of a job in a trace: what became of it so far, and what a scheduler may know of it. A preempted job keeps
the iterations it finished.

Law: a job's time from arrival to end is its waiting, its restoring and its running, and nothing else.
"""

from dataclasses import dataclass
from math import inf

from paceline.cluster.job import Job
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.profiles import Profiles


@dataclass(slots=True)
class JobRecord:
    job: TraceJob
    arrival_s: float  # from the first job's
    start_s: float = inf  # first
    end_s: float = inf
    servers: int = 0  # it is, or last was, on
    since_s: float = inf  # it has held its GPUs; inf: it waits
    training: bool = False  # not waiting, not restoring
    waiting_since_s: float = 0.0  # while it waits
    run_s: float = 0.0  # with GPUs, before since_s
    restore_s: float = 0.0  # of that, saving and restoring
    iterations_done: int = 0  # before since_s
    stops: int = 0  # preempted or moved
    cross_bytes: float = 0.0  # between machines per all-reduce, where it last was

    def __post_init__(self) -> None:
        self.waiting_since_s = self.arrival_s

    def began(self, now_s: float, servers: int) -> None:
        self.start_s = min(self.start_s, now_s)
        self.since_s, self.servers = now_s, servers

    def stopped(self, now_s: float, iterations: int) -> None:
        self.run_s += now_s - self.since_s
        self.iterations_done += iterations
        self.since_s, self.waiting_since_s = inf, now_s
        self.training = False
        self.stops += 1

    def ended(self, now_s: float) -> None:
        self.run_s += now_s - self.since_s
        self.since_s, self.end_s = inf, now_s
        self.iterations_done = self.job.iterations
        self.training = False

    @property
    def exchange_s(self) -> float:
        """Of a job that ended: what of its running was neither computing nor restoring."""
        return max(0.0, self.run_s - self.restore_s - self.job.iterations * self.job.compute_s)

    def facts(self, now_s: float, iterations: int, profiles: Profiles) -> Job:
        """As of now; `iterations` are those of the present run."""
        job, running = self.job, self.since_s < inf
        return Job(
            name=job.name,
            gpus=job.gpus,
            arrival_s=self.arrival_s,
            running_since_s=self.since_s,
            waiting_since_s=now_s if running else self.waiting_since_s,
            run_s=self.run_s + (now_s - self.since_s if running else 0.0),
            iterations=job.iterations,
            iterations_done=self.iterations_done + iterations,
            compute_s=job.compute_s,
            model_mb=job.model_mb,
            skewed=job.model in profiles and profiles[job.model].skewed,
        )

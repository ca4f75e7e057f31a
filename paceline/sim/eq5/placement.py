"""Where a job's workers go, by the memory that is left on each GPU (Ada-SRSF §IV-A, Algorithm 1).

    random      any GPUs with room                       list    those with the least load, wherever they are
    first-fit   the first with room, in order            lwf     one GPU: as list; more: server by server, by their load
    lwf-2, -4   LWF-κ: up to κ GPUs as list, more server by server; lwf is κ = 1

L_g, a GPU's load, is Σ L_J of its jobs; a server's is the sum of its GPUs'. The placements of `paceline/cluster` count
jobs to a GPU and know no megabytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from paceline.sim.eq5.job import Eq5Job


@dataclass(slots=True)
class Gpus:
    servers: int
    per_server: int
    memory_mb: int
    free_mb: list[int] = field(default_factory=list)
    jobs_on: list[set[Eq5Job]] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = self.servers * self.per_server
        self.free_mb = [self.memory_mb] * count
        self.jobs_on = [set() for _ in range(count)]

    def with_room(self, memory_mb: int) -> list[int]:
        return [gpu for gpu, free_mb in enumerate(self.free_mb) if free_mb >= memory_mb]

    def loads_s(self) -> list[float]:
        return [sum(job.service_s for job in sorted(jobs, key=lambda job: job.number)) for jobs in self.jobs_on]

    def take(self, job: Eq5Job, chosen: Sequence[int], exchange_s: float) -> None:
        """`exchange_s`: E, where the GPUs are on several servers."""
        job.held = tuple(chosen)
        job.servers = tuple(sorted({gpu // self.per_server for gpu in chosen}))
        job.server_bits = sum(1 << server for server in job.servers)
        job.exchange_s = exchange_s if len(job.servers) > 1 else 0.0
        job.count_service()
        for gpu in chosen:
            self.free_mb[gpu] -= job.model.memory_mb
            self.jobs_on[gpu].add(job)

    def give_back(self, job: Eq5Job) -> None:
        for gpu in job.held:
            self.free_mb[gpu] += job.model.memory_mb
            self.jobs_on[gpu].discard(job)


Placement = Callable[[int, list[int], Gpus, Random], list[int]]  # so many of these GPUs, which all have room


def at_random(count: int, roomy: list[int], gpus: Gpus, draws: Random) -> list[int]:
    return draws.sample(roomy, count)


def first_fit(count: int, roomy: list[int], gpus: Gpus, draws: Random) -> list[int]:
    return roomy[:count]


def least_loaded(count: int, roomy: list[int], gpus: Gpus, draws: Random) -> list[int]:
    return sorted(roomy, key=gpus.loads_s().__getitem__)[:count]


def least_workload_first(count: int, roomy: list[int], gpus: Gpus, draws: Random, kappa: int = 1) -> list[int]:
    """LWF-κ."""
    if count <= kappa:
        return least_loaded(count, roomy, gpus, draws)
    loads_s = gpus.loads_s()
    of_server_s = [sum(loads_s[first : first + gpus.per_server]) for first in range(0, len(loads_s), gpus.per_server)]

    def turn(gpu: int) -> tuple[float, int, float]:
        server = gpu // gpus.per_server
        return of_server_s[server], server, loads_s[gpu]

    return sorted(roomy, key=turn)[:count]


PLACEMENTS: dict[str, Placement] = {
    "random": at_random,
    "first-fit": first_fit,
    "list": least_loaded,
    "lwf": least_workload_first,
    "lwf-2": partial(least_workload_first, kappa=2),
    "lwf-4": partial(least_workload_first, kappa=4),
}

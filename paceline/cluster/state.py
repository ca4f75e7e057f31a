"""A cluster as placement sees it: servers in racks, each with some GPUs free. A job holds its GPUs until it ends.

Law: 0 ≤ free ≤ gpus_per_server on every server, and what a job takes is what it gives back.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, repeat
from random import Random

Workers = dict[str, int]  # server: GPUs on it, in the order of the job's ring


@dataclass(frozen=True, slots=True)
class Request:
    name: str
    gpus: int


@dataclass(slots=True)
class ClusterState:
    gpus_per_server: int
    rack_of: Mapping[str, str]  # every server, in order
    draws: Random  # for placements that choose at random
    free: Workers = field(default_factory=dict)
    placed: dict[str, Workers] = field(default_factory=dict)
    used_gpus: int = 0
    used_servers: int = 0  # those with at least one GPU taken
    remaining_s: dict[str, float] = field(default_factory=dict)  # what placed jobs still need, where it is known

    def __post_init__(self) -> None:
        self.free = dict.fromkeys(self.rack_of, self.gpus_per_server)

    def copy(self) -> "ClusterState":
        """To try something out on."""
        other = copy(self)
        other.free, other.placed = dict(self.free), dict(self.placed)
        return other

    @property
    def free_gpus(self) -> int:
        return len(self.free) * self.gpus_per_server - self.used_gpus

    def fragmentation(self, padding: int = 0) -> float:
        """Titan's rate: the share of idle GPUs in the servers in use; those that pad a job's demand are idle."""
        held = self.used_servers * self.gpus_per_server
        return 1.0 - (self.used_gpus - padding) / held if held else 0.0

    def take(self, job: str, workers: Workers) -> None:
        for server, gpus in workers.items():
            if not 0 < gpus <= self.free[server]:
                raise ValueError(f"{job} wants {gpus} GPUs of {server}, which has {self.free[server]}")
        for server, gpus in workers.items():
            self.used_servers += self.free[server] == self.gpus_per_server
            self.free[server] -= gpus
            self.used_gpus += gpus
        self.placed[job] = workers

    def give_back(self, job: str) -> None:
        for server, gpus in self.placed.pop(job).items():
            self.free[server] += gpus
            self.used_gpus -= gpus
            self.used_servers -= self.free[server] == self.gpus_per_server

    def open_gpus(self) -> list[tuple[float, str]]:
        """The load in seconds and the server of every GPU that can take a job."""
        return [(0.0, server) for server, free in self.free.items() for _ in range(free)]

    def open_servers(self) -> list[str]:
        """The server of every GPU that can take a job."""
        return list(chain.from_iterable(map(repeat, self.free, self.free.values())))

    def server_loads_s(self) -> dict[str, float]:
        """Σ over a server's GPUs of what their jobs still need; of a job that is not known, a second."""
        loads_s = dict.fromkeys(self.rack_of, 0.0)
        for job, workers in self.placed.items():
            for server, gpus in workers.items():
                loads_s[server] += gpus * self.remaining_s.get(job, 1.0)
        return loads_s


def gather(servers: list[str]) -> Workers:
    """One GPU of each server named, as often as it is named."""
    workers: Workers = {}
    for server in servers:
        workers[server] = workers.get(server, 0) + 1
    return workers


def fill(servers: list[str], gpus: int, free: Workers) -> Workers | None:
    """Server by server until there are enough; None if there are not."""
    workers: Workers = {}
    for server in servers:
        taken = min(gpus, free[server])
        if taken:
            workers[server] = taken
            gpus -= taken
        if not gpus:
            return workers
    return None

"""Jobs wait for GPUs, first come, first served, as on the paper's testbed: a worker needs one, a server none.

A job starts when there are as many hosts with a free GPU as it has workers. It gets those with the most free ones, and
its servers are on hosts without its workers, where the fewest servers are.
"""

import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from paceline.flowcore.model.scenario import JobSpec


class GpuQueue:
    """The hosts that a job comes with say how many it needs; it starts on others."""

    def __init__(self, hosts: Sequence[str], gpus_per_host: int, seed: int) -> None:
        self._seed = seed
        self._free = dict.fromkeys(hosts, gpus_per_host)
        self._servers = Counter(dict.fromkeys(hosts, 0))
        self._waiting: deque[JobSpec] = deque()
        self._running: dict[str, JobSpec] = {}

    def arrive(self, job: JobSpec) -> None:
        self._waiting.append(job)

    def start_next(self) -> JobSpec | None:
        """The first that waits, with the hosts it starts on; None while it has to wait, or nobody does."""
        if not self._waiting or sum(map(bool, self._free.values())) < len(self._waiting[0].workers):
            return None
        job = self._waiting.popleft()
        hosts = list(self._free)
        random.Random(f"{self._seed}/place/{job.name}").shuffle(hosts)  # for those that are equal
        workers = sorted(hosts, key=lambda host: -self._free[host])[: len(job.workers)]
        others = sorted((host for host in hosts if host not in workers), key=self._servers.__getitem__)
        placed = replace(job, workers=tuple(workers), servers=tuple(others[: len(job.servers)]))
        for host in placed.workers:
            self._free[host] -= 1
        self._servers.update(placed.servers)
        self._running[job.name] = placed
        return placed

    def end(self, name: str) -> None:
        ended = self._running.pop(name)
        for host in ended.workers:
            self._free[host] += 1
        self._servers.subtract(ended.servers)

"""What one process of a job is told: the job, its host and role, and the addresses of all hosts. Travels as JSON."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Self

from paceline.flowcore.model.scenario import Backend, JobSpec, Pattern
from paceline.sim.jobs import TrainingJob

PORTS_PER_JOB = 10
FIRST_PORT = 20_000


@dataclass(frozen=True, slots=True)
class Assignment:
    job: JobSpec
    number: int  # of the job in the scenario; gives it ports of its own
    seed: int
    host: str
    serves: bool  # a parameter server, not a worker
    data: Mapping[str, str]  # host -> address on the network whose capacity is emulated

    @property
    def rank(self) -> int:
        """Workers first, then servers."""
        if self.serves:
            return len(self.job.workers) + self.job.servers.index(self.host)
        return self.job.workers.index(self.host)

    @property
    def world_size(self) -> int:
        return len(self.job.workers) + len(self.job.servers)

    @property
    def iterations(self) -> range:
        return range(sys.maxsize if self.job.iterations is None else self.job.iterations)

    @property
    def port(self) -> int:
        return FIRST_PORT + PORTS_PER_JOB * self.number

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        job = fields.pop("job")
        lists = {name: tuple(job[name]) for name in ("workers", "servers")}
        names = {"pattern": Pattern(job["pattern"]), "backend": Backend(job["backend"])}
        return cls(job=JobSpec(**job | lists | names), **fields)


class ComputeTimes:
    """How long a worker computes, iteration by iteration: the simulator's own draws for the same seed."""

    def __init__(self, assignment: Assignment) -> None:
        self._job = TrainingJob(assignment.job, assignment.seed)
        self._worker = self._job.workers[assignment.host]

    def next_s(self) -> float:
        return self._job.compute_ns(self._worker) / 1e9

    def pieces_s(self) -> list[tuple[float, float]]:
        """Of the next iteration, for each of its bursts: the computing before it, and beside it."""
        spec = self._job.spec
        piece_s = self.next_s() / spec.bursts
        return [((1.0 - spec.overlap) * piece_s, spec.overlap * piece_s)] * spec.bursts


@contextmanager
def computing_beside(duration_s: float) -> Iterator[None]:
    """What is done inside has so long for nothing: the worker would compute meanwhile."""
    until_s = time.monotonic() + duration_s
    yield
    time.sleep(max(0.0, until_s - time.monotonic()))

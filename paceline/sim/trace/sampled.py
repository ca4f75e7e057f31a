"""The array engine over weeks of trace: changes in detail, the stretches in between at the pace they showed.

A job whose GPUs are all on one server needs no network and simply takes its time, unless other jobs share its GPUs. A
job on n servers is a ring over them (GPUs of one server reduce among themselves), or a parameter server with shards on
GPUs of their own, or else on up to four of its own servers.

Skipping ahead. Between two changes of the set of jobs the network repeats itself, so a stretch longer than `sample_s`
is simulated for that long and then continued at the pace each job had. Traces last weeks; their changes are few.
"""

import heapq
from array import array
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from paceline.cluster.gpu_sharing import SharedGpuState
from paceline.cluster.state import Workers
from paceline.flowcore.allocation.borrowing import Floats
from paceline.flowcore.model.scenario import JobSpec, Pattern, SlotsSpec
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import ns_from_s
from paceline.sim.array.engine import ArraySimulation
from paceline.sim.array.gating import Shifted
from paceline.sim.cassini import Cassini
from paceline.sim.jobs import Series, TrainingJob
from paceline.sim.trace.formats.job import TraceJob

# A job that did fewer iterations than this in the sample has no pace yet: the sample goes on.
FEWEST_ITERATIONS = 3
LONGEST_SAMPLES = 8  # times sample_s

A_NANOSECOND_S = 1e-9  # the engine's clock counts these; closer is the same time

MOST_SHARDS = 4  # servers that a parameter server is spread over


def spec_of(job: TraceJob, workers: Workers, jitter: float, iterations: int | None = None) -> JobSpec:
    """A job where it is placed, for all its iterations or so many."""
    hosts = tuple(workers)
    pattern = job.pattern if len(hosts) > 1 else Pattern.ALLREDUCE
    servers: tuple[str, ...] = ()
    if pattern is Pattern.PS and job.servers:
        by_gpu = [host for host, gpus in workers.items() for _ in range(gpus)]
        hosts, servers = (tuple(dict.fromkeys(part)) for part in (by_gpu[job.servers :], by_gpu[: job.servers]))
    elif pattern is Pattern.PS:
        servers = hosts[: max(1, min(MOST_SHARDS, len(hosts) // 2))]
    return JobSpec(
        name=job.name,
        pattern=pattern,
        workers=hosts,
        servers=servers,
        model_mb=job.model_mb,
        compute_s=job.compute_s,
        iterations=job.iterations if iterations is None else iterations,
        start_s=0.0,
        jitter=jitter,
    )


class JobEnded(Exception):
    """A job ended in a run that is divided: its GPUs are free for jobs of other parts."""


@dataclass(frozen=True, slots=True)
class Divided:
    """How far the run was when it was divided."""

    carried_bytes: Floats
    decisions: int
    flow_steps: int


class SampledEngine:
    def __init__(
        self,
        topology: Topology,
        finished: Callable[[str], None],
        *,
        policy: str,
        seed: int,
        jitter: float,
        stragglers: Series,
        sample_s: float,
        step_ms: float,
        latency_ms: float,
        shared: SharedGpuState | None = None,  # GPUs that jobs share in turn
        passed: Callable[[float], None] | None = None,  # is told the time, now and then
    ) -> None:
        self.array = ArraySimulation(
            topology,
            SlotsSpec().clock(),
            policy,
            latency_ms=latency_ms,
            step_ms=step_ms,
            finished=self._network_job_done,
            passed=lambda now_ns: passed(self.now_s) if passed else None,
        )
        self.skipped_s = 0.0
        self.divided: Divided | None = None  # other jobs than those here go on elsewhere
        self.iterations_s: dict[str, array[float]] = {}  # of jobs on several servers, those in detail
        self._finished = finished
        self._cassini = Cassini(topology)
        self._shared = shared
        self._seed, self._jitter, self._stragglers = seed, jitter, stragglers
        self._sample_ns = ns_from_s(min(sample_s, 1e9))
        self._sampled_ns = 0  # engine time at which the set of jobs last changed
        self._local: dict[str, tuple[TraceJob, float, float]] = {}  # when it began, and will end
        self._local_ends: list[tuple[float, str]] = []  # a heap; some may have been stopped since
        self._iterations: dict[str, int] = {}

    @property
    def now_s(self) -> float:
        return self.array.now_ns / 1e9 + self.skipped_s

    @property
    def iterations(self) -> dict[str, int]:
        """How many each job on several servers did in detail, so far."""
        present = {name: len(job.training.iteration_ends_ns) for name, job in self.array.jobs.items()}
        return {name: self._iterations.get(name, 0) + present.get(name, 0) for name in self._iterations | present}

    # ---- Jobs ----

    def start(self, job: TraceJob, iterations: int, workers: Workers) -> None:
        if len(workers) == 1 and self._shared is None:
            end_s = self.now_s + iterations * job.compute_s
            self._local[job.name] = (job, self.now_s, end_s)
            heapq.heappush(self._local_ends, (end_s, job.name))
            return
        spec = spec_of(job, workers, self._jitter, iterations)
        self._cassini.joined(spec)
        self._retime()
        gpus = self._shared.gpus_by_server(job.name) if self._shared else None
        self.array.start(TrainingJob(spec, self._seed, self._stragglers), job.gpus, gpus)
        self._sampled_ns = self.array.now_ns

    def stop(self, name: str) -> int:
        """The iterations that the job finished; a part of the next iteration is lost."""
        finished = self.iterations_done(name)
        if self._local.pop(name, None) is None:
            job = self.array.jobs[name].training
            self.array.stop(name)
            self._left(job)
        return finished

    def iterations_done(self, name: str) -> int:
        if name in self._local:
            job, began_s, _ = self._local[name]
            return int((self.now_s - began_s) / job.compute_s)
        return self.array.iterations_done(name)

    # ---- Parts of a run ----

    def divide(self, names: Container[str]) -> None:
        """Go on with these jobs alone."""
        array = self.array
        self.divided = Divided(array.network.carried_bytes(), len(array.control.decisions_ns), array.flow_steps)
        for name in [name for name in array.jobs if name not in names]:
            self._iterations[name] = self.iterations[name]
            array.stop(name)

    def take_in(
        self, iterations: Mapping[str, int], carried_bytes: Floats, decisions_ns: Sequence[int], flow_steps: int
    ) -> None:
        """What became of jobs that went on elsewhere."""
        self._iterations.update(iterations)
        self.array.take_in(carried_bytes, decisions_ns, flow_steps)

    def _network_job_done(self, job: TrainingJob) -> None:
        if self.divided is not None:
            raise JobEnded(job.spec.name)
        self.array.interrupted = True
        self._left(job)
        self._finished(job.spec.name)

    def _left(self, job: TrainingJob) -> None:
        name, ends_ns = job.spec.name, job.iteration_ends_ns
        self._sampled_ns = self.array.now_ns
        self._iterations[name] = self._iterations.get(name, 0) + len(ends_ns)
        if len(job.hosts) > 1:
            times_s = ((end - begin) / 1e9 for begin, end in pairwise(ends_ns))
            self.iterations_s.setdefault(name, array("d")).extend(times_s)
        self._cassini.left(name)
        self._retime()

    def _retime(self) -> None:
        """Jobs came or went: when are the communications of those that are left due?"""
        gating = self.array.gating
        if isinstance(gating, Shifted):
            gating.due = self._cassini.due(gating.due, self.array.now_ns)

    # ---- Time ----

    def advance(self, until_s: float) -> None:
        """To then, or to the first job's end."""
        ends = self._local_ends
        while ends and not self._ends_then(*ends[0]):
            heapq.heappop(ends)  # it was stopped
        self._advance(min(until_s, ends[0][0] if ends else inf))
        through = []
        while ends and ends[0][0] <= self.now_s + A_NANOSECOND_S:
            if self._ends_then(*(end := heapq.heappop(ends))):
                through.append(end[1])
        if through and self.divided is not None:
            raise JobEnded(through[0])
        for name in [name for name in self._local if name in through]:
            del self._local[name]
            self._finished(name)

    def _ends_then(self, end_s: float, name: str) -> bool:
        return name in self._local and self._local[name][2] == end_s

    def _advance(self, next_s: float) -> None:
        array, sample_ns = self.array, self._sample_ns
        if not array.jobs:
            if next_s < inf:
                self.skipped_s += max(0.0, next_s - self.now_s)
            return
        ends_ns = self._sampled_ns + sample_ns
        until_ns = array.now_ns + ns_from_s(min(next_s - self.now_s, 1e9))
        array.run(min(max(ends_ns, array.now_ns + 1), until_ns))
        while not array.interrupted and array.now_ns < until_ns:
            if self._skip(next_s, last=array.now_ns - self._sampled_ns >= LONGEST_SAMPLES * sample_ns):
                until_ns = array.now_ns + ns_from_s(min(next_s - self.now_s, 1e9))
                array.run(until_ns)
            else:
                array.run(min(array.now_ns + sample_ns, until_ns))

    def _skip(self, next_s: float, *, last: bool) -> bool:
        """Continue every job at the pace of the sample, to shortly before something changes; False: no pace yet."""
        begin_ns = self._sampled_ns + (self.array.now_ns - self._sampled_ns) // 4
        elapsed_s = (self.array.now_ns - begin_ns) / 1e9
        paces = {}
        for name, job in self.array.jobs.items():
            ends_ns = [end for end in job.training.iteration_ends_ns if end > begin_ns]
            if len(ends_ns) < FEWEST_ITERATIONS and not last:
                return False
            if len(ends_ns) >= FEWEST_ITERATIONS:
                paces[name] = (len(ends_ns) - 1) * 1e9 / (ends_ns[-1] - ends_ns[0])
            else:
                paces[name] = len(ends_ns) / elapsed_s
        trainings = {name: job.training for name, job in self.array.jobs.items()}
        left = {name: (job.goal or 0) - len(job.iteration_ends_ns) for name, job in trainings.items()}
        ahead_s = min([next_s - self.now_s, *((left[n] - 2) / p for n, p in paces.items() if p > 0.0)])
        if ahead_s > 0.0 and ahead_s < inf:
            for name, training in trainings.items():
                training.goal = (training.goal or 0) - min(int(paces[name] * ahead_s), left[name] - 1)
            self.skipped_s += ahead_s
        return True

"""A trace through a cluster: jobs arrive, wait for GPUs, run on the fast engine, and leave.

Jobs start in the order of arrival, or of the service they need (`order`); one that cannot be placed holds up those
behind it, unless `backfill`; one that never could is refused. A job whose GPUs are all on one server needs no network
and simply takes its time, unless others share its GPUs (`jobs_per_gpu`). A job on n servers is a ring over them (GPUs
of one server reduce among themselves), or a parameter server with shards on up to four of its own servers.

Skipping ahead. Between two changes of the set of jobs the network repeats itself, so a stretch longer than `sample_s`
is simulated for that long and then continued at the pace each job had. Traces last weeks; their changes are few.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from random import Random

from cluster.cassini.candidates import candidates
from cluster.communication.srsf import remaining_service_s
from cluster.placement import PLACEMENTS
from cluster.shared import Gpu, SharedState
from cluster.state import ClusterState, Request, Workers
from flowcore.scenario import JobSpec, Pattern, SlotsSpec
from flowcore.topology import Topology
from flowcore.units import ns_from_s
from sim.cassini import Cassini
from sim.fast.engine import FastSimulation
from sim.fast.gating import Shifted
from sim.jobs import Series, TrainingJob
from sim.traces.job import TraceJob, exchange_s

# A job that did fewer iterations than this in the sample has no pace yet: the sample goes on.
FEWEST_ITERATIONS = 3
LONGEST_SAMPLES = 8  # times sample_s

A_NANOSECOND_S = 1e-9  # the engine's clock counts these; closer is the same time

MOST_SHARDS = 4  # servers that a parameter server is spread over

ORDERS = ("arrival", "srsf")

RANKED = "+cassini"  # after a placement: of its candidates the one whose jobs interleave best
PLACES = (*PLACEMENTS, *(f"{name}{RANKED}" for name in PLACEMENTS))


@dataclass(frozen=True, slots=True)
class TraceOptions:
    servers: int
    gpus_per_server: int = 8
    placement: str = "random"
    policy: str = "paceline"  # one of sim.scheduler.SCHEDULERS
    order: str = "arrival"  # of those who wait
    jobs_per_gpu: int = 1  # more: they compute in turn
    seed: int = 1
    jitter: float = 0.03
    stragglers: Series = ()
    backfill: bool = False
    sample_s: float = 20.0  # inf: simulate every iteration
    until_s: float = inf  # stop here
    step_ms: float = 5.0
    latency_ms: float = 2.0


@dataclass(slots=True)
class Run:
    """What became of one job."""

    job: TraceJob
    start_s: float = inf
    end_s: float = inf
    servers: int = 0


@dataclass(slots=True)
class Usage:
    """Integrals over time."""

    gpu_s: float = 0.0
    machine_s: float = 0.0
    fragmentation_s: float = 0.0
    running_s: float = 0.0
    most_running: int = 0


@dataclass
class TraceRun:
    topology: Topology
    options: TraceOptions
    runs: dict[str, Run] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # job: why it can never run here
    iterations_s: dict[str, list[float]] = field(default_factory=dict)  # of jobs on several servers, those in detail
    usage: Usage = field(default_factory=Usage)
    skipped_s: float = 0.0
    _queue: deque[TraceJob] = field(default_factory=deque)
    _local: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = self.options
        servers = self.topology.hosts[: options.servers]
        racks = {host: self.topology.switch_of[host] for host in servers}
        draws = Random(f"{options.seed}/placement")
        self.cluster: ClusterState = ClusterState(options.gpus_per_server, racks, draws)
        if options.jobs_per_gpu > 1:
            self.cluster = SharedState(options.gpus_per_server, racks, draws, jobs_per_gpu=options.jobs_per_gpu)
        self.cassini = Cassini(self.topology)
        self.engine = FastSimulation(
            self.topology,
            SlotsSpec().clock(),
            options.policy,
            latency_ms=options.latency_ms,
            step_ms=options.step_ms,
            finished=self._network_job_done,
        )
        self._sampled_ns = 0  # engine time at which the set of jobs last changed
        self._accounted_s = 0.0
        self._iterations: dict[str, int] = {}

    @property
    def iterations(self) -> dict[str, int]:
        """How many each job on several servers did in detail, so far."""
        present = {name: len(member.job.iteration_ends_ns) for name, member in self.engine.members.items()}
        return self._iterations | present

    @property
    def now_s(self) -> float:
        return self.engine.now_ns / 1e9 + self.skipped_s

    def run(self, jobs: Iterable[TraceJob], progress: Callable[[float, int], None] | None = None) -> None:
        """Until every job is through, or until_s; `progress` gets the time and the number of jobs through."""
        jobs = sorted(jobs, key=lambda job: job.arrival_s)
        self.refused = {job.name: reason for job in jobs if (reason := self._impossible(job))}
        arrivals = deque(job for job in jobs if job.name not in self.refused)
        self.runs = {job.name: Run(job) for job in arrivals}
        origin_s = arrivals[0].arrival_s if arrivals else 0.0
        while arrivals or self._queue or self._local or self.engine.members:
            arrival_s = arrivals[0].arrival_s - origin_s if arrivals else inf
            next_s = min(arrival_s, self._local[0][0] if self._local else inf, self.options.until_s)
            self._advance(next_s)
            if self.now_s >= self.options.until_s - A_NANOSECOND_S:
                break
            while arrivals and arrivals[0].arrival_s - origin_s <= self.now_s + A_NANOSECOND_S:
                self._queue.append(arrivals.popleft())
            while self._local and self._local[0][0] <= self.now_s + A_NANOSECOND_S:
                self._done(heapq.heappop(self._local)[1])
            self._place_waiting()
            if progress:
                progress(self.now_s, sum(run.end_s < inf for run in self.runs.values()))
        self._account()

    # ---- Time ----

    def _advance(self, next_s: float) -> None:
        """To the next change: an arrival, a job's end, or the limit."""
        engine, sample_ns = self.engine, ns_from_s(min(self.options.sample_s, 1e9))
        if not engine.members:
            if next_s < inf:
                self.skipped_s += max(0.0, next_s - self.now_s)
            self._account()
            return
        ends_ns = self._sampled_ns + sample_ns
        until_ns = engine.now_ns + ns_from_s(min(next_s - self.now_s, 1e9))
        engine.run(min(max(ends_ns, engine.now_ns + 1), until_ns))
        while not engine.interrupted and engine.now_ns < until_ns:
            if self._skip(next_s, last=engine.now_ns - self._sampled_ns >= LONGEST_SAMPLES * sample_ns):
                until_ns = engine.now_ns + ns_from_s(min(next_s - self.now_s, 1e9))
                engine.run(until_ns)
            else:
                engine.run(min(engine.now_ns + sample_ns, until_ns))
        self._account()

    def _skip(self, next_s: float, *, last: bool) -> bool:
        """Continue every job at the pace of the sample, to shortly before something changes; False: no pace yet."""
        begin_ns = self._sampled_ns + (self.engine.now_ns - self._sampled_ns) // 4
        elapsed_s = (self.engine.now_ns - begin_ns) / 1e9
        paces = {}
        for name, member in self.engine.members.items():
            ends_ns = [end for end in member.job.iteration_ends_ns if end > begin_ns]
            if len(ends_ns) < FEWEST_ITERATIONS and not last:
                return False
            if len(ends_ns) >= FEWEST_ITERATIONS:
                paces[name] = (len(ends_ns) - 1) * 1e9 / (ends_ns[-1] - ends_ns[0])
            else:
                paces[name] = len(ends_ns) / elapsed_s
        jobs = {name: member.job for name, member in self.engine.members.items()}
        left = {name: (job.goal or 0) - len(job.iteration_ends_ns) for name, job in jobs.items()}
        ahead_s = min([next_s - self.now_s, *((left[n] - 2) / p for n, p in paces.items() if p > 0.0)])
        if ahead_s > 0.0 and ahead_s < inf:
            for name, job in jobs.items():
                job.goal = (job.goal or 0) - min(int(paces[name] * ahead_s), left[name] - 1)
            self.skipped_s += ahead_s
        return True

    def _account(self) -> None:
        elapsed_s = self.now_s - self._accounted_s
        self._accounted_s = self.now_s
        cluster, usage = self.cluster, self.usage
        usage.gpu_s += elapsed_s * cluster.used_gpus
        usage.machine_s += elapsed_s * cluster.used_servers
        usage.fragmentation_s += elapsed_s * cluster.fragmentation
        usage.running_s += elapsed_s * len(cluster.placed)

    # ---- Jobs ----

    def _impossible(self, job: TraceJob) -> str | None:
        options = self.options
        if job.gpus > options.servers * options.gpus_per_server:
            return f"it wants {job.gpus} GPUs of {options.servers} × {options.gpus_per_server}"
        return None if job.gpus >= 1 and job.iterations >= 1 else "it has no GPU or no iteration"

    def _place_waiting(self) -> None:
        self._account()
        self._weigh()
        if self.options.order == "srsf":
            self._queue = deque(sorted(self._queue, key=_service_s))
        waiting: deque[TraceJob] = deque()
        while self._queue:
            job = self._queue.popleft()
            workers = self._place(job)
            if workers is not None:
                self._start(job, workers)
                continue
            waiting.append(job)
            if not self.options.backfill:
                break
        self._queue = waiting + self._queue

    def _place(self, job: TraceJob) -> Workers | None:
        request, name = Request(job.name, job.gpus), self.options.placement
        if not name.endswith(RANKED):
            return PLACEMENTS[name](request, self.cluster)
        ways = candidates(PLACEMENTS[name.removesuffix(RANKED)], request, self.cluster)
        return ways[self.cassini.choose([self._spec(job, way) for way in ways])] if ways else None

    def _weigh(self) -> None:
        """What each job still needs, for placements that balance it."""
        remaining_s = {name: end_s - self.now_s for end_s, name in self._local}
        for name, member in self.engine.members.items():
            job = member.job
            left = (job.goal or 0) - len(job.iteration_ends_ns)
            remaining_s[name] = left * (job.spec.compute_s + exchange_s(job.spec.model_mb, len(job.spec.workers)))
        self.cluster.remaining_s = remaining_s

    def _start(self, job: TraceJob, workers: Workers) -> None:
        self.cluster.take(job.name, workers)
        self.usage.most_running = max(self.usage.most_running, len(self.cluster.placed))
        run = self.runs[job.name]
        run.start_s, run.servers = self.now_s, len(workers)
        shared = isinstance(self.cluster, SharedState)
        if len(workers) == 1 and not shared:
            heapq.heappush(self._local, (self.now_s + job.iterations * job.compute_s, job.name))
            return
        spec = self._spec(job, workers)
        self.cassini.joined(spec)
        self._retime()
        gpus = self._shared_gpus(job.name) if shared else None
        self.engine.start(TrainingJob(spec, self.options.seed, self.options.stragglers), job.gpus, gpus)
        self._sampled_ns = self.engine.now_ns

    def _spec(self, job: TraceJob, workers: Workers) -> JobSpec:
        hosts = tuple(workers)
        pattern = job.pattern if len(hosts) > 1 else Pattern.ALLREDUCE
        return JobSpec(
            name=job.name,
            pattern=pattern,
            workers=hosts,
            servers=hosts[: max(1, min(MOST_SHARDS, len(hosts) // 2))] if pattern is Pattern.PS else (),
            model_mb=job.model_mb,
            compute_s=job.compute_s,
            iterations=job.iterations,
            start_s=0.0,
            jitter=self.options.jitter,
        )

    def _shared_gpus(self, name: str) -> dict[str, tuple[Gpu, ...]]:
        assert isinstance(self.cluster, SharedState)
        gpus = self.cluster.gpus_of[name]
        return {server: tuple(gpu for gpu in gpus if gpu[0] == server) for server in self.cluster.placed[name]}

    def _retime(self) -> None:
        """Jobs came or went: when those that are left are due."""
        gating = self.engine.gating
        if isinstance(gating, Shifted):
            gating.due = self.cassini.due(gating.due, self.engine.now_ns)

    def _network_job_done(self, job: TrainingJob) -> None:
        name, ends_ns = job.spec.name, job.iteration_ends_ns
        self.engine.interrupted = True
        self._sampled_ns = self.engine.now_ns
        self._iterations[name] = len(ends_ns)
        if len(job.hosts) > 1:
            self.iterations_s[name] = [(end - begin) / 1e9 for begin, end in pairwise(ends_ns)]
        self.cassini.left(name)
        self._retime()
        self._done(name)

    def _done(self, name: str) -> None:
        self._account()
        self.runs[name].end_s = self.now_s
        self.cluster.give_back(name)


def _service_s(job: TraceJob) -> float:
    """Before it is placed, what a job communicates is not known (Ada-SRSF §IV-A: E_J = 0)."""
    return remaining_service_s(job.gpus, job.iterations, job.compute_s, 0.0)

"""A trace through a cluster: jobs arrive, wait for GPUs, train, and leave.

Whenever a job comes or goes, and every `round_s` where jobs may be preempted, the scheduler decides which jobs stop and
which start where (cluster/schedulers/scheduling_round.py). A job that is stopped keeps the iterations it finished, and
when it goes on it first holds its GPUs for `restore_s` without getting anywhere. A job that could never run here is
refused, with the reason. Where jobs share GPUs in turn (`jobs_per_gpu`), no job is preempted: those are two answers to
one question.

How fast jobs train is the engine's: `array` moves their flows under a policy (sampled.py), `analytic` computes an
iteration's length from the links a job uses, `analytic-table` from Dally's Table I (analytic.py).
"""

import heapq
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from random import Random
from typing import Any, Protocol

from paceline.cluster.admission import refusal
from paceline.cluster.collectives import COLLECTIVES, Phase
from paceline.cluster.exchange import Exchange, NetworkModel, by_table
from paceline.cluster.gpu_sharing import SharedGpuState
from paceline.cluster.job import Job
from paceline.cluster.schedulers import scheduler
from paceline.cluster.schedulers.scheduling_round import decide
from paceline.cluster.state import ClusterState, Workers
from paceline.cluster.tiers import tier_of
from paceline.cluster.titan.nimp import cross_bytes
from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.scenario import JobSpec
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import bytes_from_mb
from paceline.sim.all_reduce import exchange_s
from paceline.sim.cassini import Cassini
from paceline.sim.jobs import Series
from paceline.sim.processes import collecting_seldom
from paceline.sim.trace.analytic import AnalyticEngine
from paceline.sim.trace.formats.job import Refused, TraceJob
from paceline.sim.trace.job_record import JobRecord
from paceline.sim.trace.profiles import PROFILES, Profiles
from paceline.sim.trace.sampled import A_NANOSECOND_S, SampledEngine, spec_of

ENGINES = ("array", "analytic", "analytic-table")
OLD_ENGINES = {"fast": "array"}  # names that options, sweep files and results had before


Progress = Callable[[float, int], None]  # gets the time, and how many jobs are through


class RemainingTimes(dict[str, float]):
    """What placed jobs still need, worked out for those that a placement asks for: most placements ask for none."""

    def __init__(self, remaining_s: Callable[[str], float], placed: Container[str]) -> None:
        super().__init__()
        self._remaining_s, self._placed = remaining_s, placed

    def get(self, name: str, default: Any = None, /) -> Any:
        if name not in self and name in self._placed:
            self[name] = self._remaining_s(name)
        return super().get(name, default)


class Engine(Protocol):
    """Jobs that train. `finished` (given when the engine is made) is told the names of jobs that are through."""

    @property
    def now_s(self) -> float: ...
    def start(self, job: TraceJob, iterations: int, workers: Workers) -> None: ...
    def stop(self, name: str) -> int: ...
    def iterations_done(self, name: str) -> int: ...
    def advance(self, until_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class TraceOptions:
    servers: int
    gpus_per_server: int = 8
    placement: str = "random"
    policy: str = "paceline"  # one of paceline.sim.policy_names
    order: str = "arrival"  # of the jobs that wait; srsf: least remaining service first
    jobs_per_gpu: int = 1  # with more, jobs compute in turn
    seed: int = 1
    jitter: float = 0.03
    stragglers: Series = ()
    backfill: bool = False
    sample_s: float = 20.0  # inf: simulate every iteration
    until_s: float = inf  # stop here
    step_ms: float = 5.0
    latency_ms: float = 2.0
    engine: str = "array"  # one of ENGINES
    collective: str = "ring"  # whose traffic between machines is counted, which Titan matches, and `analytic` times
    phase_s: float = 0.1  # the longest that a phase of it should take between two machines: Titan's P_{s,s'}
    round_s: float = 600.0  # how often the scheduler looks at jobs that may be preempted
    restore_s: float = 60.0  # to save and restore a job
    rank_by_sum: bool = False  # of candidates of a placement with +cassini: cluster/cassini/ranking.py

    @classmethod
    def of(cls, source: object, **others: Any) -> "TraceOptions":
        """As `source` (a command line, a run of a sweep) and `others` say. There a sample_s of 0 means inf, and the
        engine may have its old name."""
        names = (option.name for option in fields(cls))
        found = {name: getattr(source, name) for name in names if hasattr(source, name)} | others
        found["engine"] = OLD_ENGINES.get(found["engine"], found["engine"])
        return cls(**found | {"sample_s": found["sample_s"] or inf})


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
    profiles: Profiles = field(default_factory=lambda: PROFILES)
    records: dict[str, JobRecord] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    _queue: dict[str, None] = field(default_factory=dict)  # names, in the order of arrival
    _restoring: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = self.options
        servers = self.topology.hosts[: options.servers]
        racks = {host: self.topology.switch_of[host] for host in servers}
        draws = Random(f"{options.seed}/placement")
        self.cluster: ClusterState = ClusterState(options.gpus_per_server, racks, draws)
        if options.jobs_per_gpu > 1:
            self.cluster = SharedGpuState(options.gpus_per_server, racks, draws, jobs_per_gpu=options.jobs_per_gpu)
        self._cassini = Cassini(self.topology, by_sum=options.rank_by_sum)
        self.network = NetworkModel(self.topology)
        self.scheduler = scheduler(
            options.placement,
            order=options.order,
            backfill=options.backfill,
            collective=options.collective,
            limit_bytes=lambda one, other: self.network.pair_bytes(one, other, options.phase_s),
            choose=self._choose,
        )
        self._check_sharing()
        with_flows = options.engine == "array"
        self.engine: Engine = self._sampled() if with_flows else AnalyticEngine(self._exchange, self._done)
        self._accounted_s = 0.0
        self._round_at_s = 0.0
        self._padding = 0  # GPUs that jobs hold beyond what they asked for
        self._through = 0  # jobs
        self._tell: Progress = lambda now_s, through: None

    def _sampled(self) -> SampledEngine:
        options = self.options
        return SampledEngine(
            self.topology,
            self._done,
            policy=options.policy,
            seed=options.seed,
            jitter=options.jitter,
            stragglers=options.stragglers,
            sample_s=options.sample_s,
            step_ms=options.step_ms,
            latency_ms=options.latency_ms,
            shared=self.cluster if isinstance(self.cluster, SharedGpuState) else None,
            passed=lambda now_s: self._tell(now_s, self._through),
        )

    def _check_sharing(self) -> None:
        options = self.options
        if options.jobs_per_gpu == 1:
            return
        sharing = f"{options.jobs_per_gpu} jobs per GPU"
        if options.engine != "array":
            raise InputError(sharing, "engine", repr(options.engine), "array: no other lets jobs share GPUs")
        if self.scheduler.tenure_s < inf:
            raise InputError(sharing, "placement", repr(options.placement), "a scheduler that preempts no job")

    @property
    def now_s(self) -> float:
        return self.engine.now_s

    def run(
        self,
        jobs: Iterable[TraceJob],
        progress: Progress | None = None,
        all_there: Callable[[], None] | None = None,  # is called once, when no more job will come
    ) -> None:
        """Until every job is through, or until_s."""
        with collecting_seldom():
            self._run(jobs, progress, all_there)

    def _run(self, jobs: Iterable[TraceJob], progress: Progress | None, all_there: Callable[[], None] | None) -> None:
        arrivals = deque(sorted(self._admitted(jobs), key=lambda job: job.arrival_s))
        origin_s = arrivals[0].arrival_s if arrivals else 0.0
        self.records = {job.name: JobRecord(job, job.arrival_s - origin_s) for job in arrivals}
        if progress is not None:
            self._tell = progress
        while arrivals or self._queue or self.cluster.placed:
            arrival_s = self.records[arrivals[0].name].arrival_s if arrivals else inf
            restored_s = self._restoring[0][0] if self._restoring else inf
            self.engine.advance(min(arrival_s, restored_s, self._next_round_s(), self.options.until_s))
            self._account()
            now_s = self.now_s + A_NANOSECOND_S
            if now_s >= self.options.until_s:
                break
            while arrivals and self.records[arrivals[0].name].arrival_s <= now_s:
                self._queue[arrivals.popleft().name] = None
            while self._restoring and self._restoring[0][0] <= now_s:
                self._train(heapq.heappop(self._restoring)[1])
            self._round()
            self._tell(self.now_s, self._through)
            if all_there is not None and not arrivals and not self._restoring:
                all_there()
                all_there = None
        self._account()

    def _account(self) -> None:
        elapsed_s = self.now_s - self._accounted_s
        self._accounted_s = self.now_s
        cluster, usage = self.cluster, self.usage
        usage.gpu_s += elapsed_s * cluster.used_gpus
        usage.machine_s += elapsed_s * cluster.used_servers
        usage.fragmentation_s += elapsed_s * cluster.fragmentation(self._padding)
        usage.running_s += elapsed_s * len(cluster.placed)

    # ---- Admission ----

    def _admitted(self, jobs: Iterable[TraceJob]) -> Iterator[TraceJob]:
        """Jobs that can ever run here; the other jobs are refused."""
        gpus = len(self.cluster.rack_of) * self.options.gpus_per_server
        for job in jobs:
            reason = refusal(job.gpus, job.iterations, gpus)
            if reason is None and self.options.engine == "analytic-table" and not self._share_of_compute(job):
                reason = f"Table I of Dally has no model {job.model!r}"
            if reason is None:
                yield job
            else:
                self.refused.append(Refused(job.name, reason))

    # ---- Scheduling ----

    def _next_round_s(self) -> float:
        """Where no job is preempted, or none waits and none moves, nothing changes in between."""
        changes = self.scheduler.tenure_s < inf and (self._queue or self.scheduler.moves)
        return self._round_at_s + self.options.round_s if changes else inf

    def _round(self) -> None:
        now_s = self._round_at_s = self.now_s
        self.cluster.remaining_s = RemainingTimes(self._remaining_s, self.cluster.placed)
        waiting = [self.records[name].facts(now_s, 0, self.profiles) for name in self._queue]
        preemptible = self.cluster.placed if self.scheduler.tenure_s < inf else ()
        running = [self.records[name].facts(now_s, self._iterations(name), self.profiles) for name in preemptible]
        decision = decide(self.scheduler, now_s, waiting, running, self.cluster)
        for name in decision.stop:
            self._stop(name)
        for name, workers in decision.start:
            self._start(name, workers)

    def _choose(self, job: Job, ways: Sequence[Workers], placed: Mapping[str, Workers]) -> int:
        """Which of these placements of a job CASSINI ranks best, beside the jobs that are placed."""

        def spec(name: str, workers: Workers) -> JobSpec:
            return spec_of(self.records[name].job, workers, self.options.jitter)

        others = [spec(name, workers) for name, workers in placed.items()]
        return self._cassini.choose([spec(job.name, workers) for workers in ways], others)

    def _start(self, name: str, workers: Workers) -> None:
        del self._queue[name]
        self.cluster.take(name, workers)
        self._padding += sum(workers.values()) - self.records[name].job.gpus
        self.usage.most_running = max(self.usage.most_running, len(self.cluster.placed))
        record = self.records[name]
        record.began(self.now_s, len(workers))
        if record.stops:
            record.restore_s += self.options.restore_s
            heapq.heappush(self._restoring, (self.now_s + self.options.restore_s, name))
        else:
            self._train(name)

    def _train(self, name: str) -> None:
        record, workers = self.records[name], self.cluster.placed[name]
        record.training = True
        record.cross_bytes = cross_bytes(self._phases(record.job), self._ranks(record.job, workers))
        self.engine.start(record.job, record.job.iterations - record.iterations_done, workers)

    def _stop(self, name: str) -> None:
        """The job keeps the iterations it finished, and waits again."""
        record = self.records[name]
        iterations = self.engine.stop(name) if record.training else 0
        record.restore_s -= sum(ready_s - self.now_s for ready_s, other in self._restoring if other == name)
        self._restoring = [entry for entry in self._restoring if entry[1] != name]
        heapq.heapify(self._restoring)
        record.stopped(self.now_s, iterations)
        self._give_back(name)
        self._queue[name] = None

    def _done(self, name: str) -> None:
        self._account()
        self._through += 1
        self.records[name].ended(self.now_s)
        self._give_back(name)

    def _give_back(self, name: str) -> None:
        self._padding -= sum(self.cluster.placed[name].values()) - self.records[name].job.gpus
        self.cluster.give_back(name)

    # ---- Iterations ----

    def _iterations(self, name: str) -> int:
        """Finished in the present run."""
        return self.engine.iterations_done(name) if self.records[name].training else 0

    def _remaining_s(self, name: str) -> float:
        """What a job still needs, by itself: for placements that balance it."""
        record = self.records[name]
        left = record.job.iterations - record.iterations_done - self._iterations(name)
        return left * (record.job.compute_s + exchange_s(record.job.model_mb, record.servers))

    def _phases(self, job: TraceJob) -> Sequence[Phase]:
        return COLLECTIVES[self.options.collective](job.gpus, bytes_from_mb(job.model_mb))

    def _ranks(self, job: TraceJob, workers: Workers) -> tuple[str, ...]:
        return self.scheduler.arrange(self.records[job.name].facts(self.now_s, 0, self.profiles), workers)

    def _exchange(self, job: TraceJob, workers: Workers) -> Exchange:
        if self.options.engine == "analytic-table":
            if job.gpus == 1:
                return Exchange(0.0)
            return by_table(self._share_of_compute(job), job.compute_s, tier_of(workers, self.cluster.rack_of))
        return self.network.exchange(self._phases(job), self._ranks(job, workers), bytes_from_mb(job.model_mb))

    def _share_of_compute(self, job: TraceJob) -> tuple[float, ...]:
        profile = self.profiles.get(job.model)
        return profile.exchange_share or () if profile else ()

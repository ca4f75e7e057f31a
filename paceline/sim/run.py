"""One scenario under one policy, and the numbers that policies are compared by."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from paceline.flowcore.model.background import FAIR
from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import JobSpec, Scenario
from paceline.flowcore.model.units import transfer_ns
from paceline.flowcore.policy import policy_named
from paceline.sim.array.arbitrated import ArbitratedControl
from paceline.sim.array.compiled_control import CompiledControl
from paceline.sim.array.engine import in_agents, run_scenario
from paceline.sim.array.planned.control import PlannedControl
from paceline.sim.capacity_bound import CapacityBound, capacity_bound
from paceline.sim.jobs import TrainingJob
from paceline.sim.parameters import DEFAULT_LATENCY_MS
from paceline.sim.policy_names import parts
from paceline.sim.recording import Recording
from paceline.sim.reference.engine import JournalSink, Simulation

WARM_UP_ITERATIONS = 3
FEWEST_ITERATIONS = 5

Ticker = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class JobResult:
    name: str
    iterations: int
    alone_iteration_s: float
    mean_iteration_s: float
    p99_iteration_s: float
    slowdown: float
    jct_s: float | None  # None: it was still running at the end


@dataclass(frozen=True, slots=True)
class RunResult:
    policy: str
    seed: int
    jobs: tuple[JobResult, ...]
    bound: CapacityBound
    max_link_overload: float
    decisions_us: tuple[float, ...]
    simulated_s: float
    others_bytes: tuple[float, ...] = ()  # what each flow of cross traffic has sent

    @property
    def mean_slowdown(self) -> float:
        return fmean(job.slowdown for job in self.jobs)

    @property
    def ratio_to_bound(self) -> float:
        return self.mean_slowdown / self.bound.mean


def run(
    scenario: Scenario,
    policy: str,
    seed: int | None = None,
    *,
    alone_s: Mapping[str, float] | None = None,
    latency_ms: float = DEFAULT_LATENCY_MS,
    local: bool = False,
    recording: Recording | None = None,
    journal: JournalSink | None = None,
    ticker: Ticker | None = None,
    array: bool = False,
    agents: bool = False,
    background: str = FAIR,
) -> RunResult:
    """Simulate, and compare with each job alone; `alone_s` saves measuring that again for the same seed. `array`: in
    the array engine, where it can do what the policy does. `agents`: what holds jobs back is a policy of the agents
    (policy.HOLDING), as in the daemons. `background`: what is done about cross traffic (model/background.py)."""
    holds_jobs = parts(policy)[1] is not None and not agents
    if holds_jobs:
        check_policy(scenario, policy)
    seed = scenario.seed if seed is None else seed
    alone_s = alone_s or alone_iterations_s(scenario, seed)
    bound = capacity_bound([link_shares(job, scenario, alone_s[job.name]) for job in scenario.jobs])
    # Only the array engine holds whole jobs back.
    if holds_jobs or (array and in_arrays(scenario, policy)):
        simulated, trained = run_scenario(scenario, policy, seed, latency_ms, background)
        jobs = tuple(job_result(job, alone_s[job.spec.name], simulated.now_ns) for job in trained)
        control, decisions_us = simulated.control, tuple(ns / 1e3 for ns in simulated.control.decisions_ns)
        promises = ArbitratedControl | CompiledControl | PlannedControl
        peak_ratio = round(control.peak_ratio, 7) if isinstance(control, promises) else 0.0
        told = (peak_ratio, decisions_us, simulated.now_ns / 1e9, simulated.others_bytes)
        return RunResult(policy, seed, jobs, bound, *told)
    simulation = Simulation(
        *(scenario, policy, seed),
        latency_ms=latency_ms,
        local=local,
        recording=recording,
        journal=journal,
        background=background,
    )
    simulation.run(ticker)
    jobs = tuple(job_result(job, alone_s[name], simulation.now_ns) for name, job in simulation.jobs.items())
    planned = [
        max(switch.table.peak_ratio, switch.arbitration.peak_ratio if switch.arbitration is not None else 0.0)
        for switch in (*simulation.switches.values(), *(host.local for host in simulation.hosts.values()))
    ]
    return RunResult(
        policy=policy,
        seed=seed,
        jobs=jobs,
        bound=bound,
        # Load tables allow for rounding (load_table.SLACK); seven digits say whether a switch planned too much.
        max_link_overload=round(max(planned), 7),
        decisions_us=tuple(ns / 1e3 for ns in simulation.decisions_ns),
        simulated_s=simulation.now_ns / 1e9,
        others_bytes=simulation.others_bytes,
    )


def in_arrays(scenario: Scenario, policy: str) -> bool:
    """Whether the array engine runs this without the agents."""
    chosen = policy_named(parts(policy)[0])
    plain = all(job.plain for job in scenario.jobs)
    return plain and not in_agents(chosen, cross_traffic=bool(scenario.cross_traffic))


class PolicyError(ValueError):
    """The policy cannot run the scenario; str() says why in one line."""


def check_policy(scenario: Scenario, policy: str) -> None:
    """What holds jobs back knows one exchange per iteration, which begins when the computing is over."""
    odd = [job.name for job in scenario.jobs if not job.plain]
    if odd and parts(policy)[1] is not None:
        raise PolicyError(f"{policy} holds jobs back: it cannot run job {odd[0]!r}, which has overlap or bursts")


def alone_iterations_s(scenario: Scenario, seed: int, *, array: bool = False) -> dict[str, float]:
    """Mean iteration time of each job on the same topology with no other job and no control. `array`: in the array
    engine, where it knows the job; a job alone takes as long in either, but for a few nanoseconds."""
    alone_s = {}
    for job in scenario.jobs:
        # The same draws as in the shared run, where the job does no more iterations than alone.
        solo = replace(scenario, jobs=(replace(job, start_s=0.0),), cross_traffic=())
        alone, end_ns = _alone(solo, seed, array=array)
        if len(alone.iteration_ends_ns) < FEWEST_ITERATIONS and not alone.finished:
            # The scenario is too short for the job even alone.
            enough = replace(job, start_s=0.0, iterations=FEWEST_ITERATIONS)
            alone, end_ns = _alone(replace(solo, jobs=(enough,), duration_s=None), seed, array=array)
        alone_s[job.name] = mean_iteration_s(alone, end_ns)
    return alone_s


def _alone(solo: Scenario, seed: int, *, array: bool) -> tuple[TrainingJob, int]:
    """The job of a scenario of one, and when its run ended."""
    if array and in_arrays(solo, "fair"):
        simulated, (alone,) = run_scenario(solo, "fair", seed)
        return alone, simulated.now_ns
    simulation = Simulation(solo, "fair", seed)
    simulation.run()
    (alone,) = simulation.jobs.values()
    return alone, simulation.now_ns


def link_shares(job: JobSpec, scenario: Scenario, alone_s: float) -> dict[str, float]:
    """a_il: the part of each link's time the job needs at full speed."""
    topology = scenario.topology
    shares: dict[str, float] = {}
    for spec in flows_of(job):
        flow = spec.flow
        for link in topology.path(flow.source, flow.target, str(flow)):
            busy_s = transfer_ns(spec.size_bytes, topology.links[link].capacity_bps) / 1e9
            shares[link] = shares.get(link, 0.0) + busy_s / alone_s
    return shares


def iteration_times_s(job: TrainingJob) -> list[float]:
    ends_ns = [round(job.spec.start_s * 1e9), *job.iteration_ends_ns]
    return [(end - start) / 1e9 for start, end in pairwise(ends_ns)]


def mean_iteration_s(job: TrainingJob, now_ns: int) -> float:
    """Over the iterations after the warm-up; for a job that did too few, elapsed ÷ (iterations + 1)."""
    return _mean_s(job, now_ns, steady_times_s(job, now_ns))


def whole_iteration_s(job: TrainingJob, now_ns: int) -> float:
    """The same with the warm-up."""
    return _mean_s(job, now_ns, _and_stuck(job, now_ns, iteration_times_s(job)))


def steady_times_s(job: TrainingJob, now_ns: int) -> list[float]:
    """After the warm-up."""
    times = iteration_times_s(job)
    return _and_stuck(job, now_ns, times[WARM_UP_ITERATIONS:] or times)


def _mean_s(job: TrainingJob, now_ns: int, times: list[float]) -> float:
    ended = iteration_times_s(job)
    if len(ended) < FEWEST_ITERATIONS:
        elapsed_s = now_ns / 1e9 - job.spec.start_s
        return (sum(ended) if job.finished else elapsed_s) / (len(ended) + (not job.finished))
    return fmean(times)


def _and_stuck(job: TrainingJob, now_ns: int, times: list[float]) -> list[float]:
    """An iteration that has not ended counts once it is longer than all that did: the job may be stuck."""
    running_s = 0.0 if job.finished or not times else (now_ns - job.iteration_ends_ns[-1]) / 1e9
    return [*times, running_s] if running_s > max(times, default=0.0) else times


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0


def job_result(job: TrainingJob, alone_s: float, now_ns: int) -> JobResult:
    times = iteration_times_s(job)
    mean_s = mean_iteration_s(job, now_ns)
    steady = steady_times_s(job, now_ns)
    return JobResult(
        name=job.spec.name,
        iterations=len(times),
        alone_iteration_s=alone_s,
        mean_iteration_s=mean_s,
        p99_iteration_s=percentile(steady, 99) if steady else mean_s,
        slowdown=mean_s / alone_s,
        jct_s=sum(times) if job.finished else None,
    )

"""One run: the jobs of a scenario on a testbed under one control, and the check that their bytes went over it.

An iteration of a job ends when the last of its workers has ended it, as in the simulator. Measured ends fill the
simulator's own TrainingJob, so that both are judged by the same code.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path

from bench.jobs.control import Control, DaemonCpu, RunningControl
from bench.jobs.daemon_control import DaemonControl
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import ProcessSpec, process_specs, throttled
from bench.jobs.process_group import ProcessGroup, RunFailed, RunProcess
from bench.jobs.shared_cluster import SharedCluster
from bench.stalls import watching_stalls
from bench.testbed.addresses import Addresses
from bench.testbed.impair import UNIMPAIRED, Impairment
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from bench.testbed.routes import Pair, flows_in, paths_of
from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.model.topology import link_name
from paceline.flowcore.model.units import transfer_ns
from paceline.sim.jobs import TrainingJob

# A model's size is rounded to whole rows of a layer; headers outweigh that except where a model is tiny.
LEAST_SHARE = 0.99

# A run without an end has failed when no iteration ends for so long, and for so many times the slowest conceivable one.
PROGRESS_TIMEOUT_S, PROGRESS_TIMEOUT_ITERATIONS = 120.0, 20


@dataclass(frozen=True, slots=True)
class Conditions:
    """How to run a scenario: what it does not say itself."""

    workload: str
    seed: int
    impairment: Impairment = UNIMPAIRED
    bundle_bytes: int | None = None
    shared: SharedCluster | None = None


@dataclass(frozen=True, slots=True)
class JobsRun:
    control: str
    jobs: tuple[TrainingJob, ...]  # ends of iterations counted from the beginning of the run
    lasted_ns: int
    link_bytes: Mapping[str, int]
    cross_traffic_bytes: tuple[int, ...]  # acknowledged, by burst source
    cpu: DaemonCpu
    fail_opens: int = 0  # how often a daemon gave up control, and the jobs ran without limits for a while
    stalled_percent: float | None = None  # of the cores' time, by the machine itself; None: our load looks like that
    starts_ns: Mapping[str, int] = field(default_factory=dict)  # of jobs that waited for GPUs


@dataclass(frozen=True, slots=True)
class Stage:
    """What a run has while its jobs run."""

    testbed: Testbed
    group: ProcessGroup
    running: RunningControl
    directory: Path
    begin_ns: int


@dataclass(frozen=True, slots=True)
class Counted:
    """What a run leaves beside its jobs' iterations: fields of JobsRun."""

    lasted_ns: int
    link_bytes: Mapping[str, int]
    cross_traffic_bytes: tuple[int, ...]
    cpu: DaemonCpu
    fail_opens: int
    stalled_percent: float | None


def run_once(
    scenario: Scenario,
    control: Control,
    conditions: Conditions,
    fork_server: ForkServer,
    tick: Callable[[], None] = lambda: None,
) -> JobsRun:
    """Raises RunFailed when a process fails or bytes are missing; `tick` is called a few times a second."""
    paths = paths_of(scenario.topology, flows_in(scenario))
    jobs = [TrainingJob(spec, conditions.seed) for spec in scenario.jobs]
    # What reads counters itself, beside or instead of hostd, finds them in files.
    registered = isinstance(control, DaemonControl)

    def processes(addresses: Addresses, directory: Path) -> list[ProcessSpec]:
        specs = process_specs(scenario, conditions.seed, conditions.workload, addresses, directory, registered)
        return throttled(specs) if isinstance(control, DaemonControl) and control.throttled else specs

    def begin(stage: Stage) -> Callable[[], bool]:
        def finished() -> bool:
            tick()
            for job in jobs:
                job.iteration_ends_ns = iteration_ends_ns(job.spec.name, stage.group.processes, stage.begin_ns)
            return all(job.finished for job in jobs)

        return finished

    counted = run_on_testbed(scenario, control, conditions, paths, fork_server, processes, begin)
    sizes = zip(scenario.cross_traffic, counted.cross_traffic_bytes, strict=True)
    check_bytes(jobs, paths, counted.link_bytes, [((one.source, one.target), size) for one, size in sizes])
    return jobs_run(control, jobs, counted)


def jobs_run(
    control: Control, jobs: Sequence[TrainingJob], counted: Counted, starts_ns: Mapping[str, int] | None = None
) -> JobsRun:
    return JobsRun(
        control.name,
        tuple(jobs),
        counted.lasted_ns,
        counted.link_bytes,
        counted.cross_traffic_bytes,
        counted.cpu,
        counted.fail_opens,
        counted.stalled_percent,
        starts_ns or {},
    )


def run_on_testbed(
    scenario: Scenario,
    control: Control,
    conditions: Conditions,
    paths: Mapping[Pair, tuple[str, ...]],
    fork_server: ForkServer,
    processes: Callable[[Addresses, Path], Sequence[ProcessSpec]],
    begin: Callable[[Stage], Callable[[], bool]],
) -> Counted:
    """Starts `processes` and, when all are ready, the run; it lasts until what `begin` returns is true, or for as long
    as the scenario says."""
    directory = new_directory()
    network = (scenario.topology, control.congestion_control, paths, conditions.impairment, conditions.bundle_bytes)
    try:
        with Testbed(*network) as testbed:
            for host in scenario.topology.hosts:
                (directory / host).mkdir()
            group = ProcessGroup(fork_server, testbed, processes(testbed.addresses, directory), directory)
            with control.running(testbed, scenario, directory) as running, group, watching_stalls() as stalls:
                group.await_ready()
                before = testbed.link_bytes()
                running.begin()
                stage = Stage(testbed, group, running, directory, group.go())
                finished = begin(stage)
                end_ns = None if scenario.duration_s is None else stage.begin_ns + round(scenario.duration_s * 1e9)
                timeout_s = progress_timeout_s(scenario) if end_ns is None else inf
                group.listen_until(finished, end_ns, timeout_s)
                lasted_ns = time.monotonic_ns() - stage.begin_ns
                after = testbed.link_bytes()
                fail_opens, cpu = running.fail_opens(), running.cpu()
                cross_bytes = cross_traffic_bytes(group.processes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    carried = {link: after[link] - before[link] for link in after}
    # Packets one by one keep a core's interrupts busy for so long that our own load looks like a stall.
    reliable = stalls.reliable and not conditions.impairment.one_by_one
    return Counted(lasted_ns, carried, cross_bytes, cpu, fail_opens, stalls.percent if reliable else None)


def progress_timeout_s(scenario: Scenario) -> float:
    """How long a run may go on without an iteration that ends: more than the slowest job could ever need."""
    slowest_bps = min(link.capacity_bps for link in scenario.topology.links.values())
    needs_s = [
        spec.compute_s + transfer_ns(spec.model_mb * 1e6 * len((*spec.workers, *spec.servers)), slowest_bps) / 1e9
        for spec in scenario.jobs
    ]
    last_start_s = max(spec.start_s for spec in scenario.jobs)
    return PROGRESS_TIMEOUT_S + last_start_s + PROGRESS_TIMEOUT_ITERATIONS * max(needs_s)


def iteration_ends_ns(job: str, processes: Sequence[RunProcess], begin_ns: int) -> list[int]:
    """When each iteration was over for the last of the job's workers, counted from the run's beginning."""
    ends = [process.numbers for process in processes if process.spec.job == job and process.spec.prints_numbers]
    return [max(iteration) - begin_ns for iteration in zip(*ends, strict=False)]


def cross_traffic_bytes(processes: Sequence[RunProcess]) -> tuple[int, ...]:
    """Acknowledged so far, by source."""
    sources = (one for one in processes if one.spec.job is None and one.spec.prints_numbers)
    return tuple(max(source.numbers, default=0) for source in sources)


def check_bytes(
    jobs: Sequence[TrainingJob],
    paths: Mapping[Pair, tuple[str, ...]],
    carried: Mapping[str, int],
    cross_traffic: Sequence[tuple[Pair, float]] = (),
) -> None:
    """Every link must have carried what the jobs' iterations needed of it, beside the cross traffic's bytes."""
    sent = [*cross_traffic]
    for job in jobs:
        for spec in flows_of(job.spec):
            if not spec.flow.local:
                sent.append(((spec.flow.source, spec.flow.target), spec.size_bytes * len(job.iteration_ends_ns)))
    needed: dict[str, float] = {}
    for pair, size_bytes in sent:
        for source, target in pairwise(paths[pair]):
            link = link_name(source, target)
            needed[link] = needed.get(link, 0.0) + size_bytes
    for link, size_bytes in needed.items():
        if carried[link] < LEAST_SHARE * size_bytes:
            raise RunFailed(
                f"link {link} carried {carried[link]} bytes where the jobs' iterations need {size_bytes:.0f}: "
                "they went past the emulated network"
            )

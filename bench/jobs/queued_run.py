"""One run on a cluster that is shared: jobs arrive, wait for GPUs, run where there are some, and leave.

A job's processes start when it has its GPUs, and it begins when all of them are ready. What is measured is counted from
its arrival, as its owner would: `start_s` of the scenario's job. Where it ran is known to the control only.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

from bench.jobs.control import Control, ToldOfPlaces
from bench.jobs.daemon_control import DaemonControl
from bench.jobs.fork_server import ForkServer
from bench.jobs.gpu_queue import GpuQueue
from bench.jobs.launch import ProcessSpec, job_processes, others_processes
from bench.jobs.process_group import RunProcess, soon_ns
from bench.jobs.run import Conditions, JobsRun, Stage, check_bytes, iteration_ends_ns, jobs_run, run_on_testbed
from bench.jobs.shared_cluster import SharedCluster
from bench.testbed.addresses import Addresses
from bench.testbed.routes import Pair, paths_of
from bench.workload.choice import program_for
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.scenario import JobSpec, Scenario
from paceline.sim.jobs import TrainingJob


def run_queued(
    scenario: Scenario,
    control: Control,
    conditions: Conditions,
    shared: SharedCluster,
    fork_server: ForkServer,
    tick: Callable[[], None] = lambda: None,
) -> JobsRun:
    """Raises RunFailed when a process fails or bytes are missing; `tick` is called a few times a second."""
    paths, registered = _all_paths(scenario), isinstance(control, DaemonControl)
    found = list[_Jobs]()

    def others(addresses: Addresses, directory: Path) -> list[ProcessSpec]:
        return others_processes(shared, len(scenario.jobs), conditions.seed, addresses)

    def begin(stage: Stage) -> Callable[[], bool]:
        jobs = _Jobs(scenario, conditions, shared, stage, registered)
        found.append(jobs)

        def finished() -> bool:
            tick()
            jobs.step()
            return jobs.all_finished

        return finished

    counted = run_on_testbed(scenario, control, conditions, paths, fork_server, others, begin)
    [jobs] = found
    check_bytes([*jobs.placed()], paths, counted.link_bytes)
    return jobs_run(control, [*jobs.training.values()], counted, jobs.starts_ns)


def _all_paths(scenario: Scenario) -> dict[Pair, tuple[str, ...]]:
    """Any job may come to be on any hosts."""
    return paths_of(
        scenario.topology, (FlowId("", *pair, Role.RING) for pair in permutations(scenario.topology.hosts, 2))
    )


class _Jobs:
    """From arrival to end. Times are counted from the run's beginning."""

    def __init__(
        self,
        scenario: Scenario,
        conditions: Conditions,
        shared: SharedCluster,
        stage: Stage,
        registered: bool,
    ) -> None:
        self._conditions, self._stage, self._registered = conditions, stage, registered
        self._numbers = {job.name: number for number, job in enumerate(scenario.jobs)}
        self._queue = GpuQueue(scenario.topology.hosts, shared.gpus_per_host, conditions.seed)
        self._to_come = deque(sorted(scenario.jobs, key=lambda job: job.start_s))
        self._starting: dict[str, list[RunProcess]] = {}
        self._places: dict[str, JobSpec] = {}
        self._ended: set[str] = set()
        self.training = {job.name: TrainingJob(job, conditions.seed) for job in scenario.jobs}
        self.starts_ns: dict[str, int] = {}

    @property
    def all_finished(self) -> bool:
        return len(self._ended) == len(self.training)

    def placed(self) -> Iterator[TrainingJob]:
        """With the hosts they had."""
        for name, job in self._places.items():
            there = TrainingJob(job, self._conditions.seed)
            there.iteration_ends_ns = self.training[name].iteration_ends_ns
            yield there

    def step(self) -> None:
        now_ns = time.monotonic_ns() - self._stage.begin_ns
        while self._to_come and self._to_come[0].start_s * 1e9 <= now_ns:
            self._queue.arrive(self._to_come.popleft())
        self._note_iterations()
        while (job := self._queue.start_next()) is not None:
            self._start(job)
        self._let_go()

    def _note_iterations(self) -> None:
        for name in self.starts_ns.keys() - self._ended:
            job = self.training[name]
            job.iteration_ends_ns = iteration_ends_ns(name, self._stage.group.processes, self._stage.begin_ns)
            if job.finished:
                self._ended.add(name)
                self._queue.end(name)

    def _start(self, job: JobSpec) -> None:
        self._places[job.name] = job
        number, workload = self._numbers[job.name], self._conditions.workload
        if isinstance(self._stage.running, ToldOfPlaces):
            self._stage.running.place(job, number)
        specs = job_processes(
            job,
            number,
            self._conditions.seed,
            program_for(job, workload),
            self._stage.testbed.addresses,
            self._stage.directory,
            self._registered,
        )
        self._starting[job.name] = self._stage.group.start([*specs])

    def _let_go(self) -> None:
        for name, processes in [*self._starting.items()]:
            if all(process.ready for process in processes):
                start_ns = soon_ns()
                for process in processes:
                    process.go(start_ns)
                self.starts_ns[name] = start_ns - self._stage.begin_ns
                del self._starting[name]


def gpu_load(run: JobsRun, gpus: int) -> float:
    """Which part of the GPUs jobs had, until the last arrival."""
    last_ns = max(round(job.spec.start_s * 1e9) for job in run.jobs)
    return sum(
        len(job.spec.workers) * max(0, min(last_ns, _end_ns(job, run)) - min(last_ns, run.starts_ns[job.spec.name]))
        for job in run.jobs
        if job.spec.name in run.starts_ns
    ) / max(1, gpus * last_ns)


def _end_ns(job: TrainingJob, run: JobsRun) -> int:
    return job.iteration_ends_ns[-1] if job.finished else run.lasted_ns

"""A run of the whole chain: two identical jobs, their shim, a hostd on each host, a switchd, HTB; and what is seen.

First one job runs without daemons, for comparison; then both with them. In the middle the first host's hostd is killed
(SIGKILL) and started again a second later, as systemd would do. The jobs know nothing of all this.
"""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.gpu.breaks import Damage
from bench.gpu.chain_judge import FOUND_AGAIN_S, Counted, Observations
from bench.jobs.daemons import START_S, DaemonProcess, hostd, registration_socket, switchd
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import ProcessSpec, fork_server_environment, modules_for, process_specs
from bench.jobs.process_group import ProcessGroup
from bench.jobs.run import iteration_ends_ns
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from nccl_shim.segment.memory_search import admit_memories
from nccl_shim.segment.reader import ProcessView, Reader
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

HOSTS, JOBS = ("h0", "h1"), ("a", "b")
ROW_BYTES = 4096  # of a layer (bench/workload/training.py): a model is rounded up to whole rows
WARM_UP = 3  # iterations of the job alone that do not count
DOWN_S = 1.0
REGISTRATION_S = 5.0  # within which hostd's socket for jobs is there
LOG_LINES = 20
_LOOK_S, _STATUS_S = 0.005, 0.1
_UNREGISTERED_S = 1.0  # within which every process has begun to count


@dataclass(frozen=True, slots=True)
class Setup:
    backend: str
    workload: str
    link_gbps: float
    model_mb: float
    compute_s: float
    before_s: float  # until hostd is killed
    after_s: float  # from when its successor has found the jobs

    @property
    def gradient_bytes(self) -> int:
        return -(-round(self.model_mb * 1e6) // ROW_BYTES) * ROW_BYTES

    def scenario(self, jobs: Sequence[str], iterations: int | None = None) -> Scenario:
        specs = [
            JobSpec(name, Pattern.ALLREDUCE, HOSTS, (), self.model_mb, self.compute_s, iterations, 0.0, jitter=0.0)
            for name in jobs
        ]
        return Scenario("chain", 1, None, SlotsSpec(), star(len(HOSTS), self.link_gbps), tuple(specs), ())


SETUPS = {
    "nccl": Setup("nccl", "nccl", 1.0, 25.0, 0.25, before_s=12.0, after_s=4.0),
    "gloo": Setup("gloo", "ddp", 0.4, 4.0, 0.15, before_s=6.0, after_s=2.0),
}


def observe(setup: Setup, harm: Damage, sound: bool) -> Observations:
    """`sound`: the chain is whole, so that a run alone and a killed hostd say something, too."""
    modules = modules_for(setup.scenario(JOBS), setup.workload)
    with ForkServer(modules, fork_server_environment() | dict(harm.environment)) as fork_server:
        alone_s = _alone_s(setup, fork_server) if sound else None
        with _Chain(setup, harm, fork_server) as chain:
            return chain.observe(alone_s, restart=sound)


@contextmanager
def _network(setup: Setup) -> Iterator[tuple[Testbed, Path]]:
    directory = new_directory()
    try:
        with Testbed(setup.scenario(JOBS).topology) as testbed:
            for host in HOSTS:
                (directory / host).mkdir()
            yield testbed, directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _specs(setup: Setup, scenario: Scenario, testbed: Testbed, directory: Path) -> list[ProcessSpec]:
    return process_specs(scenario, scenario.seed, setup.workload, testbed.addresses, directory, registered=True)


def _alone_s(setup: Setup, fork_server: ForkServer) -> float:
    iterations = WARM_UP + round(setup.before_s / 3 / setup.compute_s / 2)
    scenario = setup.scenario(JOBS[:1], iterations)
    with _network(setup) as (testbed, directory):
        specs = _specs(setup, scenario, testbed, directory)
        with ProcessGroup(fork_server, testbed, specs, directory) as group:
            group.await_ready()
            begin_ns = group.go()
            group.listen_until(lambda: all(process.done for process in group.processes), None, 60.0)
            ends = iteration_ends_ns(JOBS[0], group.processes, begin_ns)
    return fmean((later - earlier) / 1e9 for earlier, later in pairwise(ends[WARM_UP - 1 :]))


class _Chain:
    """Both jobs and the daemons, running; use as a context manager."""

    def __init__(self, setup: Setup, harm: Damage, fork_server: ForkServer) -> None:
        self._setup, self._harm, self._fork_server = setup, harm, fork_server
        self._counted: dict[tuple[str, int], Counted] = {}
        self._statuses: dict[str, list[Mapping[str, Any]]] = {host: [] for host in HOSTS}

    def __enter__(self) -> "_Chain":
        with ExitStack() as stack:
            testbed, directory = stack.enter_context(_network(self._setup))
            scenario = self._setup.scenario(JOBS)
            place = directory / "elsewhere" if self._harm.hostd_is_blind else directory
            for host in HOSTS:
                (place / host).mkdir(parents=True, exist_ok=True)
            switch = stack.enter_context(switchd(testbed, scenario.topology.switches[0], directory, scenario.slots))
            self._switch = switch
            self._hosts = {host: stack.enter_context(hostd(testbed, host, place, scenario.slots)) for host in HOSTS}
            for host, daemon in self._hosts.items():
                daemon.await_hostd(connected=True, switches=[switch])
                _await_path(registration_socket(place, host))
            specs = _specs(self._setup, scenario, testbed, directory)
            harmed = [replace(spec, env={**spec.env, **self._harm.environment}) for spec in specs]
            self._group = stack.enter_context(ProcessGroup(self._fork_server, testbed, harmed, directory))
            self._readers = [stack.enter_context(Reader(directory / host)) for host in HOSTS]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    def observe(self, alone_s: float | None, restart: bool) -> Observations:
        self._group.await_ready()
        self._pids = {process.pid for process in self._group.processes}
        self._group.go()
        self._look_for(_UNREGISTERED_S)
        admit_memories(self._readers[0])
        self._look_for(self._setup.before_s / 2 - _UNREGISTERED_S)
        self._look_for(self._setup.before_s / 2, self._statuses)
        killed_ns, found_again_s = self._restart(self._hosts[HOSTS[0]]) if restart else (None, None)
        self._count()
        processes = self._group.processes
        return Observations(
            self._setup.backend, JOBS, HOSTS, self._setup.gradient_bytes, self._setup.compute_s, alone_s,
            self._counted, self._statuses,
            {job: iteration_ends_ns(job, processes, 0) for job in JOBS},
            {(str(one.spec.job), int(one.spec.env["RANK"])): len(one.numbers) for one in processes},
            killed_ns, found_again_s, self._logs(),
        )  # fmt: skip

    def _logs(self) -> dict[str, list[str]]:
        daemons = {"switch": self._switch, **self._hosts}
        return {node: daemon.log().splitlines()[-LOG_LINES:] for node, daemon in daemons.items()}

    def _restart(self, daemon: DaemonProcess) -> tuple[int, float | None]:
        """When hostd was killed, and how long its successor took to pace both jobs, from when it answered."""
        daemon.process.kill()
        daemon.process.wait()
        killed_ns = time.monotonic_ns()
        self._look_for(DOWN_S)
        daemon.start()
        began_s = time.monotonic()
        answered_s = found_s = None
        while found_s is None and time.monotonic() < (answered_s or began_s + START_S) + FOUND_AGAIN_S:
            self._look_for(_STATUS_S)
            with suppress(OSError):
                known = {job["name"] for job in daemon.status()["jobs"] if job["controlled"]}
                answered_s = answered_s or time.monotonic()
                found_s = time.monotonic() - answered_s if known >= {*JOBS} else None
        self._look_for(self._setup.after_s)
        return killed_ns, found_s

    def _look_for(self, duration_s: float, statuses: Mapping[str, list[Mapping[str, Any]]] | None = None) -> None:
        end_s = time.monotonic() + duration_s
        asked_s = 0.0
        while (now_s := time.monotonic()) < end_s:
            self._group.listen_until(lambda: False, round((now_s + _LOOK_S) * 1e9))
            self._count()
            if statuses is not None and now_s >= asked_s + _STATUS_S:
                asked_s = now_s
                for host, daemon in self._hosts.items():
                    with suppress(OSError):
                        statuses[host].append(daemon.status())

    def _count(self) -> None:
        for reader in self._readers:
            for view in reader.poll():
                if view.host_pid not in self._pids:  # memory of another run on this machine
                    continue
                count(self._counted.setdefault((view.snapshot.job, view.snapshot.global_rank), Counted()), view)


def _await_path(path: Path) -> None:
    """For a moment: a process of hostd's makes it, and jobs that do not find it go on without."""
    end_s = time.monotonic() + REGISTRATION_S
    while not path.exists() and time.monotonic() < end_s:
        time.sleep(_LOOK_S)


def count(counted: Counted, view: ProcessView) -> None:
    """Takes in what a process's counters say now."""
    counter = view.snapshot.iteration_counter
    if counter is None:
        return
    counted.iterations, counted.registered = counter.iteration, view.registered
    if counter.iteration:
        counted.sizes[counter.iteration] = counter.last_enqueued_bytes
        latest_ns = max((flow.enqueued_ns for flow in view.snapshot.flows if flow.kind.outbound), default=0)
        if latest_ns > counter.start_ns:
            counted.gaps_s.setdefault(counter.iteration, (latest_ns - counter.start_ns) / 1e9)

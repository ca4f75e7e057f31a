"""One run: jobs without daemons, then with them, then faults, then calm; then the daemons end, and all is compared.

base       BASE_S without daemons: how fast the jobs are under TCP, and the state of the hosts as found
paced      BASE_S with them, once every job is controlled
faults     for the time that was asked for
calm       until every job is controlled again
end        daemons stop while the jobs go on; what is there is compared with what was found
"""

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.chaos.as_found import HostState, differences, read_state
from bench.chaos.faults.network import FAULTS as NETWORK_FAULTS
from bench.chaos.faults.operators import FAULTS as OPERATORS_FAULTS
from bench.chaos.faults.processes import FAULTS as PROCESS_FAULTS
from bench.chaos.jobs import ChaosJob
from bench.chaos.judge import CONTROLLED_WITHIN_S
from bench.chaos.leaks import descriptors, files_left, more_descriptors, namespaces_of, processes_left
from bench.chaos.plan import Fault, draw
from bench.chaos.small_disk import own_mounts, small_disk
from bench.chaos.supervisor import Supervised
from bench.chaos.timeline import Performed, Timeline
from bench.chaos.watch import HostWatch
from bench.chaos.world import World
from bench.jobs.daemons import DaemonFailed, hostd, switchd
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for, process_specs
from bench.jobs.process_group import RunFailed
from bench.stalls import watching_stalls
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

PERFORM = {**PROCESS_FAULTS, **NETWORK_FAULTS, **OPERATORS_FAULTS}
BASE_S = 8.0
WARM_UP = 3  # iterations
READY_S = 90.0  # for jobs to train, and for all of them to be controlled
CALM_S = 5.0
AS_FOUND_S = 3.0  # what a job kept from being taken back is taken back a little later
LOOP_S = 0.004

Progress = Callable[[str, float], None]  # what is done, and the part of the whole that is through


@dataclass(frozen=True, slots=True)
class Setup:
    seed: int
    duration_s: float
    kinds: tuple[str, ...]
    synthetic: bool = False  # no torch
    base_s: float = BASE_S
    logs: Path | None = None  # a directory for the daemons' logs

    @property
    def workload(self) -> str:
        return "synthetic" if self.synthetic else "a=synthetic,b=ddp,c=synthetic"


@dataclass(frozen=True, slots=True)
class Result:
    plan: tuple[Fault, ...]
    seen: Timeline
    left_out: dict[str, str]  # kinds that cannot be had here, and why
    stalled_percent: float | None


def scenario(seed: int) -> Scenario:
    """Two jobs share the links of h0 and h1, and a third those of h1."""
    jobs = (
        JobSpec("a", Pattern.ALLREDUCE, ("h0", "h1"), (), 6.0, 0.15, None, 0.0, 0.0),
        JobSpec("b", Pattern.ALLREDUCE, ("h0", "h1"), (), 8.0, 0.2, None, 0.0, 0.0),
        JobSpec("c", Pattern.ALLREDUCE, ("h1", "h2"), (), 5.0, 0.12, None, 0.0, 0.0),
    )
    return Scenario("chaos", seed, None, SlotsSpec(60.0), star(3, 0.5), jobs, ())


def run(setup: Setup, progress: Progress) -> Result:
    """Raises RunFailed, DaemonFailed or another Failure where the run does not come about."""
    directory = new_directory()
    try:
        with own_mounts() as no_mounts:
            chaos = _Run(setup, directory, progress, no_mounts)
            with watching_stalls() as stalls, ExitStack() as stack:
                chaos.build(stack)
                chaos.observe()
        chaos.seen.leaks += processes_left(chaos.namespaces, chaos.children())
        if stalls.reliable:
            chaos.seen.stalls_s += [(a - chaos.origin_s, b - chaos.origin_s) for a, b in stalls.spans_s]
        return Result(chaos.plan, chaos.seen, chaos.left_out, stalls.percent if stalls.reliable else None)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class _Run:
    def __init__(self, setup: Setup, directory: Path, progress: Progress, no_mounts: str) -> None:
        self._setup, self._directory, self._progress = setup, directory, progress
        self.left_out = {"full-disk": f"no mounts here: {no_mounts}"} if no_mounts else {}
        self.left_out = {kind: why for kind, why in self.left_out.items() if kind in setup.kinds}
        self._scenario = scenario(setup.seed)
        self.origin_s = time.monotonic()
        topology = self._scenario.topology
        kinds = [kind for kind in setup.kinds if kind not in self.left_out]
        names = [job.name for job in self._scenario.jobs]
        self.plan = draw(setup.seed, setup.duration_s, kinds, topology.hosts, topology.switches, names)
        self._whole_s = 2 * setup.base_s + setup.duration_s + CALM_S
        self._watches: dict[str, HostWatch] = {}
        self._daemons: list[Supervised] = []

    # ---- Set-up ----

    def build(self, stack: ExitStack) -> None:
        self._progress("starting", 0.0)
        scenario, directory = self._scenario, self._directory
        modules = modules_for(scenario, self._setup.workload)
        fork_server = stack.enter_context(ForkServer(modules, fork_server_environment()))
        self._testbed = stack.enter_context(Testbed(scenario.topology))
        self.namespaces = namespaces_of(self._testbed)
        for host in scenario.topology.hosts:
            (directory / host).mkdir()
            if "full-disk" not in self.left_out:
                stack.enter_context(small_disk(directory / f"hostd-{host}"))
        specs = process_specs(
            scenario, self._setup.seed, self._setup.workload, self._testbed.addresses, directory
        )  # fmt: skip
        self._jobs = {
            job.name: ChaosJob(
                job.name, [spec for spec in specs if spec.job == job.name], fork_server, self._testbed, directory,
                self.origin_s,
            )
            for job in scenario.jobs
        }  # fmt: skip
        self.seen = Timeline(
            scenario.slots.length_ms / 1e3, 0.0, 0.0, {name: job.seen for name, job in self._jobs.items()}, {}
        )
        for job in self._jobs.values():
            stack.callback(job.close)
        self._stack = stack

    def _start_daemons(self) -> None:
        testbed, directory, slots = self._testbed, self._directory, self._scenario.slots
        topology = self._scenario.topology
        switches = [switchd(testbed, name, directory, slots) for name in topology.switches]
        hosts = [hostd(testbed, name, directory, slots) for name in topology.hosts]
        for daemon in (*switches, *hosts):
            daemon.log_path = directory / f"{daemon.program}-{daemon.node}.log"  # not on the disk that may be full
        self._daemons = []
        for daemon in (*switches, *hosts):
            self._daemons.append(Supervised(daemon, testbed, self._note_end))
            self._stack.callback(daemon.stop)
        self._watches = {
            daemon.node: HostWatch(testbed.nodes[daemon.node], daemon, self.origin_s) for daemon in hosts
        }  # fmt: skip
        self.seen.hosts = {host: watch.seen for host, watch in self._watches.items()}
        by_node = {one.daemon.node: one for one in self._daemons}
        self._world = World(
            testbed,
            {name: by_node[name] for name in topology.hosts},
            {name: by_node[name] for name in topology.switches},
            self._jobs,
        )

    # ---- Phases ----

    def observe(self) -> None:
        try:
            self._observe()
        finally:
            self._keep_logs()

    def _observe(self) -> None:
        setup = self._setup
        for job in self._jobs.values():
            job.start()
        self._live(lambda: all(job.trains for job in self._jobs.values()), READY_S, "jobs start")
        self._go_on(setup.base_s, "without daemons")
        for job in self._jobs.values():
            job.seen.tcp_iteration_s = self._median_s(job, WARM_UP)
        before = self._states()
        self._start_daemons()
        with ExitStack() as watching:
            for watch in self._watches.values():
                watching.enter_context(watch)
            self._live(self._all_controlled, READY_S, "jobs join")
            counts = {name: len(job.seen.iterations) for name, job in self._jobs.items()}
            self._go_on(setup.base_s, "without faults")
            for name, job in self._jobs.items():
                job.seen.paced_iteration_s = self._median_s(job, counts[name])
            had = descriptors(one.daemon for one in self._daemons)
            self.seen.begin_s = self._now_s()
            self._faults()
            self._calm()
            self.seen.leaks += more_descriptors(had, descriptors(one.daemon for one in self._daemons))
            self.seen.end_s = self._now_s()
        self._end(before)

    def _faults(self) -> None:
        """A fault that has lasted long enough is taken back before the next begins."""
        for fault in self.plan:
            self._go_on(self.seen.begin_s + fault.at_s - self._now_s(), self._naming(fault))
            performed = Performed(fault, self._now_s(), self._now_s())
            self.seen.faults.append(performed)
            done = PERFORM[fault.kind](self._world, fault)
            performed.note = done.note
            if done.undo is not None:
                self._go_on(performed.begin_s + fault.lasts_s - self._now_s(), self._naming(fault))
                done.undo()
                performed.end_s = self._now_s()
        self._go_on(self.seen.begin_s + self._setup.duration_s - self._now_s(), "after the last fault")

    def _naming(self, fault: Fault) -> str:
        return f"fault {fault.number + 1} of {len(self.plan)}, {fault.kind}"

    def _calm(self) -> None:
        """Until all has been well for a while, or for too long."""
        since_s = self._now_s()
        good_s = since_s
        while self._now_s() - good_s < CALM_S and self._now_s() - since_s < CONTROLLED_WITHIN_S + CALM_S:
            self._step("calm")
            if not self._all_controlled():
                good_s = self._now_s()

    def _end(self, before: dict[str, HostState]) -> None:
        for one in reversed(self._daemons):  # hosts first
            one.stop()
        until_s = self._now_s() + AS_FOUND_S
        while found := [
            text for host, state in self._states().items() for text in differences(host, before[host], state)
        ]:
            if self._now_s() > until_s:
                break
            self._go_on(0.2, "comparing")
        self.seen.differences += found
        for host in self._world.hosts.values():
            self.seen.leaks += files_left(host.daemon.place)
        for one in self._daemons:
            self.seen.raised += [
                f"{one.daemon.program} on {one.daemon.node}: {line[:500]}"
                for line in one.daemon.log().splitlines()
                if '"exception"' in line or "Traceback" in line
            ]

    # ---- The loop ----

    def _step(self, doing: str) -> None:
        self._progress(doing, min(1.0, self._now_s() / self._whole_s))
        for job in self._jobs.values():
            job.poll()
        for one in self._daemons:
            one.poll()
        for watch in self._watches.values():
            watch.look()
        time.sleep(LOOP_S)

    def _go_on(self, duration_s: float, doing: str) -> None:
        until_s = self._now_s() + duration_s
        while self._now_s() < until_s:
            self._step(doing)

    def _live(self, holds: Callable[[], bool], limit_s: float, doing: str) -> None:
        until_s = self._now_s() + limit_s
        while not holds():
            self._step(doing)
            if self._now_s() > until_s:
                for one in self._daemons:
                    one.daemon.require_running()
                raise (DaemonFailed if self._daemons else RunFailed)(f"{doing}: not within {limit_s:g} s")

    def _all_controlled(self) -> bool:
        last = {host: watch.seen.status[-1] for host, watch in self._watches.items() if watch.seen.status}
        return len(last) == len(self._watches) and all(
            look.enforces and look.with_switch and self._jobs_on(host) <= look.controlled | look.left_to_tcp
            for host, look in last.items()
        )

    def _jobs_on(self, host: str) -> set[str]:
        return {name for name, job in self._jobs.items() if host in job.seen.hosts and job.trains}

    def _states(self) -> dict[str, HostState]:
        return {
            host: read_state(
                self._testbed.nodes[host],
                {name: job.pids[host] for name, job in self._jobs.items() if host in job.pids},
            )
            for host in self._scenario.topology.hosts
        }

    def _median_s(self, job: ChaosJob, since: int) -> float:
        took_s: Sequence[float] = [one.took_s for one in job.seen.iterations[since:]]
        if not took_s:
            raise RunFailed(f"job {job.name} ended no iteration")
        return median(took_s)

    def _note_end(self, what: str) -> None:
        self.seen.ended.append((self._now_s(), what))

    def children(self) -> set[tuple[int, float]]:
        return {child for watch in self._watches.values() for child in watch.children}

    def _keep_logs(self) -> None:
        if self._setup.logs is not None:
            self._setup.logs.mkdir(parents=True, exist_ok=True)
            for one in self._daemons:
                shutil.copy(one.daemon.log_path, self._setup.logs)

    def _now_s(self) -> float:
        return time.monotonic() - self.origin_s

"""hostd is stopped and killed while a burst is held at the gate, again and again: the burst goes, and nothing fails.

Three jobs on two hosts want more than their link carries, so that one of them always waits. Each time a job is seen
whose burst is launched and held on both hosts, both hosts' hostd stand still (SIGSTOP) or die (SIGKILL), in turns; how
long until its bytes move is what counts. Then hostd goes on or is started again, as systemd would do. An iteration that
fails (torch's or NCCL's error, a process that ends) ends the run with that error. At last a job is killed while it is
held: its pages must go.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.jobs.daemons import DaemonProcess, hostd, registration_socket, switchd
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for, process_specs
from bench.jobs.process_group import ProcessGroup, RunFailed
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from hostd.kernel.flow_meter import FlowMeter
from hostd.kernel.sockets import ProcessSockets
from nccl_shim.page.layout import ANY_PEER, State
from nccl_shim.page.reader import PageReader
from nccl_shim.segment.liveness import start_ticks
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

HOSTS, JOBS = ("h0", "h1"), ("a", "b", "c")
LINK_GBPS, MODEL_MB, COMPUTE_S = 0.4, 8.0, 0.15
SLOTS = SlotsSpec(60.0)
MOST_SLOTS = 10  # until a held burst goes
READY_S, SEEN_S, GOES_S = 90.0, 60.0, 5.0
LOOK_S = 0.002
SIGNALS = (signal.SIGSTOP, signal.SIGKILL)


@dataclass(slots=True)
class Result:
    went_s: dict[str, list[float]] = field(default_factory=lambda: {one.name: [] for one in SIGNALS})
    iterations: int = 0  # of all jobs
    pages_left: int = 0  # of a job that was killed while it was held

    @property
    def slowest_slots(self) -> float:
        return max(one for times in self.went_s.values() for one in times) * 1e3 / SLOTS.length_ms

    @property
    def passed(self) -> bool:
        return self.slowest_slots <= MOST_SLOTS and self.pages_left == 0


def run(count: int, workload: str, progress: Callable[[str, float], None]) -> Result:
    """Raises Failure where a job or a daemon fails."""
    specs = [JobSpec(name, Pattern.ALLREDUCE, HOSTS, (), MODEL_MB, COMPUTE_S, None, 0.0, jitter=0.0) for name in JOBS]
    scenario = Scenario("held", 1, None, SLOTS, star(len(HOSTS), LINK_GBPS), tuple(specs), ())
    result = Result()
    with ForkServer(modules_for(scenario, workload), fork_server_environment()) as forks, ExitStack() as stack:
        world = _World(scenario, workload, forks, stack)
        world.await_controlled()
        for number in range(count):
            sent = SIGNALS[number % len(SIGNALS)]
            progress(f"{sent.name} {number + 1} of {count}", number / count)
            result.went_s[sent.name].append(world.fail(sent))
        result.iterations = sum(len(process.numbers) for process in world.group.processes)
        result.pages_left = world.pages_left_by_a_killed_job()
    return result


def document(result: Result) -> dict[str, Any]:
    times_ms = {name: [round(1e3 * one, 1) for one in times] for name, times in result.went_s.items()}
    return {
        "went_ms": times_ms,
        "slowest_slots": result.slowest_slots,
        "iterations": result.iterations,
        "pages_left": result.pages_left,
        "pass": result.passed,
    }


def lines(result: Result) -> list[str]:
    each = [
        f"{name}: {len(times)} held bursts went after {1e3 * median(times):.0f} ms, {1e3 * max(times):.0f} at most"
        for name, times in result.went_s.items()
        if times
    ]
    slowest = f"{result.slowest_slots:.1f} slots at most, {MOST_SLOTS} promised"
    left = f"a job that was killed while it was held left {result.pages_left} pages"
    return [*each, f"{slowest}; no job failed in {result.iterations} iterations; {left}"]


class _World:
    def __init__(self, scenario: Scenario, workload: str, forks: ForkServer, stack: ExitStack) -> None:
        directory = new_directory()
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        testbed = stack.enter_context(Testbed(scenario.topology))
        for host in HOSTS:
            (directory / host).mkdir()
        switch = stack.enter_context(switchd(testbed, scenario.topology.switches[0], directory, SLOTS))
        self.daemons: list[DaemonProcess] = [
            stack.enter_context(hostd(testbed, host, directory, SLOTS, backend="gate")) for host in HOSTS
        ]
        for daemon, host in zip(self.daemons, HOSTS, strict=True):
            daemon.await_hostd(connected=True, switches=[switch])
            _await(registration_socket(directory, host).exists, READY_S, "hostd's socket for jobs")
        specs = process_specs(scenario, 1, workload, testbed.addresses, directory, registered=True)
        self.group = stack.enter_context(ProcessGroup(forks, testbed, specs, directory))
        self.group.await_ready()
        self.group.go()
        self._pids = {(one.spec.job, one.spec.host): one.pid for one in self.group.processes}

    def await_controlled(self) -> None:
        def are() -> bool:
            self._listen()
            return all({one["name"] for one in daemon.status()["jobs"] if one["controlled"]} >= {*JOBS}
                       for daemon in self.daemons)  # fmt: skip

        _await(are, READY_S, "all jobs to be controlled")

    def fail(self, number: signal.Signals) -> float:
        """Seconds from the signal to the first bytes of a burst that was held."""
        held = self._await_held()
        for daemon in self.daemons:
            daemon.signal(number)
        began_s = time.monotonic()
        _await(lambda: self._moves(held), GOES_S, "a held burst to go")
        went_s = time.monotonic() - began_s
        for daemon in self.daemons:
            if number is signal.SIGKILL:
                daemon.process.wait()
                daemon.start()
            else:
                daemon.signal(signal.SIGCONT)
        for daemon in self.daemons:
            daemon.await_hostd(connected=True)
        self.await_controlled()
        return went_s

    def pages_left_by_a_killed_job(self) -> int:
        job = self._await_held()
        pids = [self._pids[job, host] for host in HOSTS]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        time.sleep(3.0)  # hostd looks once a second
        pages = [path.name for daemon in self.daemons for path in _pages(daemon).glob("*.page")]
        return sum(name.split("-")[0] in map(str, pids) for name in pages)

    def _await_held(self) -> str:
        found: list[str] = []

        def one_is() -> bool:
            self._listen()
            live = [self._live(daemon) for daemon in self.daemons]
            held = (job for job in JOBS if all(job in of_host for of_host in live) and self._is_held(job))
            found[:] = [job for job in held if not self._moves(job)][:1]
            return bool(found)

        _await(one_is, SEEN_S, "a burst to be held")
        return found[0]

    def _live(self, daemon: DaemonProcess) -> set[str]:
        return {job["name"] for job in daemon.status()["jobs"] if any(flow["live"] for flow in job["flows"])}

    def _is_held(self, job: str) -> bool:
        return all(
            self._says(_pages(daemon), self._pids[job, host]) is State.HELD
            for daemon, host in zip(self.daemons, HOSTS, strict=True)
        )

    def _says(self, pages: Path, pid: int) -> State:
        reader = PageReader(pages / f"{pid}-{start_ticks(pid)}.page")
        try:
            return State(reader.look(ANY_PEER).state)
        finally:
            reader.close()

    def _moves(self, job: str, within_s: float = 0.01) -> bool:
        """Bytes of it, on any host."""
        meters = []
        for host in HOSTS:
            process = ProcessSockets(self._pids[job, host])
            process.look()
            meter = FlowMeter()
            meters.append((meter, process.sockets, meter.read(process.sockets)))
        time.sleep(within_s)
        return any(meter.read(sockets) > before for meter, sockets, before in meters)

    def _listen(self) -> None:
        """Raises RunFailed where a process of a job has failed."""
        self.group.listen_until(lambda: False, time.monotonic_ns() + round(LOOK_S * 1e9))


def _pages(daemon: DaemonProcess) -> Path:
    return daemon.place / "jobs" / "pages"


def _await(holds: Callable[[], object], within_s: float, what: str) -> None:
    end_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end_s:
            raise RunFailed(f"waited {within_s:g} s for {what}, in vain")
        time.sleep(LOOK_S)

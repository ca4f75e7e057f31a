"""hostd as a whole: two hosts of a testbed, synthetic jobs between them, daemons as an operator starts them.

Iterations of a job alone take some 0.15 s, of which the link is busy for 0.05 s.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from bench.jobs.daemons import DaemonProcess, hostd, switchd
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, process_specs
from bench.jobs.process_group import ProcessGroup
from bench.testbed.impair import UNIMPAIRED, Impairment
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from hostd.kernel.sockets import DataSocket, ProcessSockets
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from tests.hostd.conftest import Wire, wait_until

LINK_GBPS = 0.2
SLOTS = SlotsSpec(60.0)
LOOK_S = 0.03
SETTLED_S = 20.0  # for anything that should happen soon, on a busy machine


class Cluster:
    def __init__(
        self, fork_server: ForkServer, stack: ExitStack, impairment: Impairment = UNIMPAIRED, hosts: int = 2
    ) -> None:
        self.topology = star(hosts, LINK_GBPS)
        self.directory = new_directory()
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.testbed = stack.enter_context(Testbed(self.topology, impairment=impairment))
        for host in self.topology.hosts:
            (self.directory / host).mkdir()
        self._fork_server, self._stack = fork_server, stack
        self._wire = Wire(self.testbed.nodes["h0"], self.testbed.nodes["h1"], stack)
        self._jobs: list[JobSpec] = []

    # ---- Jobs ----

    def jobs(
        self,
        *names: str,
        model_mb: float = 1.25,
        compute_s: float = 0.1,
        iterations: int | None = None,
        hosts: tuple[str, str] = ("h0", "h1"),
        module: str | None = None,
        known_as: Mapping[str, str] | None = None,
        registered: bool = False,
    ) -> ProcessGroup:
        """Starts them, each with a worker on both hosts; `module` runs instead of the synthetic job. `known_as`: by
        host, the name that a job's processes have there. `registered`: where a hostd listens, they hand it their
        counters."""
        specs = [
            JobSpec(name, Pattern.ALLREDUCE, hosts, (), model_mb, compute_s, iterations, 0.0, 0.0) for name in names
        ]
        before, self._jobs = self._jobs, [*self._jobs, *specs]
        scenario = Scenario("test", 1, None, SLOTS, self.topology, tuple(self._jobs), ())
        processes = process_specs(scenario, 1, "synthetic", self.testbed.addresses, self.directory)
        new = [spec for spec in processes if spec.job not in {job.name for job in before}]
        if module is not None:
            new = [replace(spec, module=module) for spec in new]
        if known_as is not None:
            new = [replace(spec, env={**spec.env, "PACELINE_JOB": known_as[spec.host]}) for spec in new]
        if registered:
            place = {spec.host: self.directory / f"hostd-{spec.host}" / "jobs" / "hostd.sock" for spec in new}
            new = [replace(spec, env={**spec.env, "PACELINE_SOCKET": str(place[spec.host])}) for spec in new]
        group = self._stack.enter_context(ProcessGroup(self._fork_server, self.testbed, new, self.directory))
        group.await_ready()
        group.go()
        return group

    def run(self, group: ProcessGroup, holds: Callable[[], object], limit_s: float = SETTLED_S) -> float:
        """Lets the jobs go on until it holds; how long that took.

        Looked at by the clock: a look when a job says something is a look at the end of an iteration.
        """
        began_s = time.monotonic()
        while not holds():
            assert time.monotonic() < began_s + limit_s, "it never came"
            self.pause(group, LOOK_S)
        return time.monotonic() - began_s

    def pause(self, group: ProcessGroup, duration_s: float) -> None:
        """Lets the jobs go on for a while."""
        group.listen_until(lambda: False, time.monotonic_ns() + round(duration_s * 1e9))

    def sockets(self, group: ProcessGroup, host: str = "h0") -> tuple[DataSocket, ...]:
        """The data sockets of the group's jobs on this host that lead to the other one."""
        found = [ProcessSockets(process.pid) for process in group.processes if process.spec.host == host]
        self.run(group, lambda: all((one.look() or True) and one.sockets for one in found))
        return tuple(one for process in found for one in process.sockets)

    def sink(self, address: str, port: int) -> None:
        """Takes everything, on h1."""
        self._wire.sink(address, port)

    def ends_with_test(self, process: "subprocess.Popen[str]") -> None:
        self._stack.callback(end, process)

    # ---- Daemons ----

    def hostd(self, host: str = "h0", slot_ms: float = 60.0, start: bool = True, **options: Any) -> DaemonProcess:
        """Alone by default; started, and answering."""
        slots = replace(SLOTS, length_ms=slot_ms)
        options = {"with_switch": False, **options}
        daemon = hostd(self.testbed, host, self.directory, slots, **options)
        if start:
            self.start(daemon)
        return daemon

    def switchd(self, slot_ms: float = 60.0, more: str = "") -> DaemonProcess:
        slots = replace(SLOTS, length_ms=slot_ms)
        daemon = switchd(self.testbed, self.topology.switches[0], self.directory, slots, more=more)
        return self._stack.enter_context(daemon)

    def start(self, daemon: DaemonProcess) -> None:
        self._stack.enter_context(daemon)
        daemon.await_hostd()

    def state(self, sockets: tuple[DataSocket, ...] = ()) -> object:
        """Everything on h0 that hostd may change."""
        return self._wire.state(sockets)


def end(process: "subprocess.Popen[str]") -> None:
    with process:
        process.kill()


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer(["bench.workload.synthetic"], fork_server_environment()) as made:
        yield made


@pytest.fixture
def cluster(fork_server: ForkServer) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(fork_server, stack)


def edit(daemon: DaemonProcess, old: str, new: str) -> None:
    """Its configuration file; it hears of it when it is told."""
    text = daemon.config_path.read_text()
    assert old in text
    daemon.config_path.write_text(text.replace(old, new))


def reload(daemon: DaemonProcess, said: str) -> None:
    """Until it has logged what it made of it."""
    seen = daemon.log().count(said)
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: daemon.log().count(said) > seen, SETTLED_S)


def reasons(daemon: DaemonProcess, job: str) -> dict[str, str]:
    """Why the job is not paced, by reason."""
    found = [one for one in daemon.status()["jobs"] if one["name"] == job]
    return {one["reason"]: one["why"] for job in found for one in job["not_paced"]}


def flows(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [flow for job in status["jobs"] for flow in job["flows"]]


def joined(daemon: DaemonProcess) -> set[str]:
    return {job["name"] for job in daemon.status()["jobs"] if job["controlled"]}

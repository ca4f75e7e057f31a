"""A small cluster on this machine: switchd and a hostd for each host, synthetic jobs between them, and `paceline web`.

Everything is a process as in a cluster, in namespaces of the testbed (bench/testbed). The page is served where the
switch is.
"""

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from bench.jobs.daemons import PORT, DaemonProcess, hostd, switchd
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, process_specs
from bench.jobs.process_group import ProcessGroup
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from paceline.failure import Failure
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

SLOTS = SlotsSpec(60.0)
START_S = 20.0


def ring(name: str, workers: tuple[str, ...], model_mb: float, compute_s: float) -> JobSpec:
    return JobSpec(name, Pattern.ALLREDUCE, workers, (), model_mb, compute_s, None, 0.0, 0.0)


class SmallCluster:
    """Use as a context manager: no process outlives the block."""

    def __init__(self, jobs: Sequence[JobSpec], hosts: int, link_gbps: float, watched_hosts: Sequence[str]) -> None:
        self._jobs, self._topology, self._watched = jobs, star(hosts, link_gbps), watched_hosts
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        """All processes first, then their answers: they come up side by side."""
        topology = self._topology
        self.directory = new_directory()
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.testbed = stack.enter_context(Testbed(topology))
        self.switch = stack.enter_context(switchd(self.testbed, topology.switches[0], self.directory, SLOTS))
        self.hosts: dict[str, DaemonProcess] = {}
        for host in topology.hosts:
            (self.directory / host).mkdir()
            self.hosts[host] = stack.enter_context(hostd(self.testbed, host, self.directory, SLOTS))
        self.web = self._start_web()
        stack.callback(self._end, self.web)
        fork_server = stack.enter_context(ForkServer(["bench.workload.synthetic"], fork_server_environment()))
        scenario = Scenario("web", 1, None, SLOTS, topology, tuple(self._jobs), ())
        specs = process_specs(scenario, 1, "synthetic", self.testbed.addresses, self.directory)
        group = stack.enter_context(ProcessGroup(fork_server, self.testbed, specs, self.directory))
        group.await_ready()
        group.go()
        self.url = self._url()

    def _start_web(self) -> "subprocess.Popen[Any]":
        command = [sys.executable, "-m", "paceline", "web", "--listen", "127.0.0.1:0"]
        command += ["--switch", self.switch_address]
        for host in self._watched:
            command += ["--host", str(self.hosts[host].place)]
        return self.popen(command, stdout=subprocess.PIPE)

    @property
    def switch_address(self) -> str:
        return f"{self.testbed.addresses.control[self._topology.switches[0]].ip}:{PORT}"

    def _url(self) -> str:
        assert self.web.stdout is not None
        ready, _, _ = select.select([self.web.stdout], [], [], START_S)
        line = os.read(self.web.stdout.fileno(), 1000).decode() if ready else ""
        found = re.search(r"http://\S+/", line)
        if found is None:
            raise Failure(f"paceline web did not come up: {line!r}")
        return found[0]

    def popen(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """A process where the switch is."""
        return self.testbed.nodes[self._topology.switches[0]].popen(command, **options)

    @staticmethod
    def _end(process: "subprocess.Popen[Any]") -> None:
        with process:
            process.terminate()
            end_s = time.monotonic() + 5.0
            while process.poll() is None and time.monotonic() < end_s:
                time.sleep(0.01)
            process.kill()

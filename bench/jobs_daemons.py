"""The daemons as a control of the testbed: a switchd in every switch's namespace, a hostd in every host's.

They are the programs an operator would start, with configuration files, on the testbed's control network. The data
network keeps its congestion control; cubic beneath, as most clusters have it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from bench.jobs_control import ControlError, DaemonCpu, Running
from bench.testbed.network import Testbed
from bench.testbed.toml_text import topology_text
from flowcore.scenario import Scenario
from hostd.control import ask

PORT = 7470
NICE = -10
START_S = 20.0


class DaemonControl:
    congestion_control = "cubic"

    def __init__(
        self, policy: str, backend: str = "htb", mode: str = "enforce", journals: Path | None = None
    ) -> None:
        self.name = policy
        self._backend, self._mode, self._journals = backend, mode, journals

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator[Running]:
        with ExitStack() as stack:
            switches = [
                stack.enter_context(self._switchd(testbed, scenario, switch, directory))
                for switch in reversed(scenario.topology.switches)
            ]
            hosts = [
                stack.enter_context(self._hostd(testbed, scenario, host, directory))
                for host in scenario.topology.hosts
            ]
            self._await(scenario, directory, hosts)
            yield Daemons(hosts, switches)

    @contextmanager
    def _switchd(self, testbed: Testbed, scenario: Scenario, switch: str, directory: Path) -> Iterator[int]:
        control = testbed.addresses.control
        parents = scenario.topology.parents.get(switch, ())
        text = f"""
name = "{switch}"
listen = "{control[switch].ip}:{PORT}"
policy = "{self.name}"
plaintext = true
{_common(scenario)}
[parents]
""" + "".join(f'{parent} = "{control[parent].ip}:{PORT}"\n' for parent in parents)
        with _daemon(testbed, switch, "switchd", text, directory / f"switchd-{switch}") as process:
            yield process.pid

    @contextmanager
    def _hostd(self, testbed: Testbed, scenario: Scenario, host: str, directory: Path) -> Iterator[int]:
        place = directory / f"hostd-{host}"
        tor = scenario.topology.switch_of[host]
        text = f"""
name = "{host}"
switch = "{testbed.addresses.control[tor].ip}:{PORT}"
policy = "{self.name}"
mode = "{self._mode}"
backend = "{self._backend}"
plaintext = true
small_bundles = true
shim_directory = "{directory / host}"
runtime_directory = "{place}"
{_common(scenario)}
[addresses]
""" + "".join(f'{name} = "{address}"\n' for name, address in testbed.addresses.data.items())
        journal = ["--journal", str(self._journals / f"{host}.jsonl")] if self._journals else []
        with _daemon(testbed, host, "hostd", text, place, *journal) as process:
            yield process.pid

    def _await(self, scenario: Scenario, directory: Path, hosts: list[int]) -> None:
        """Until every host has been taken in by its switch."""
        end_s = time.monotonic() + START_S
        for host in scenario.topology.hosts:
            place = directory / f"hostd-{host}"
            while True:
                try:
                    if ask(place / "control.sock", "status")["switch"]["connected"]:
                        break
                except (OSError, KeyError):
                    pass
                if time.monotonic() > end_s:
                    log = (place / "log").read_text(errors="replace").splitlines() or ["nothing logged"]
                    raise ControlError(f"hostd on {host} did not find its switch: {log[-1]}")
                time.sleep(0.02)


class Daemons:
    def __init__(self, hosts: list[int], switches: list[int]) -> None:
        self._hosts = [psutil.Process(pid) for pid in hosts]
        self._switches = [psutil.Process(pid) for pid in switches]
        self._began_s = time.monotonic()
        self._before = self._spent_s()

    def cpu(self) -> DaemonCpu:
        """Guardians are part of their hostd."""
        wall_s = max(1e-3, time.monotonic() - self._began_s)
        hosts_s, switches_s = (now - then for now, then in zip(self._spent_s(), self._before, strict=True))
        return DaemonCpu(100 * hosts_s / wall_s / len(self._hosts), 100 * switches_s / wall_s / len(self._switches))

    def _spent_s(self) -> tuple[float, float]:
        hosts = [one for host in self._hosts for one in (host, *host.children(recursive=True))]
        return tuple(sum(sum(p.cpu_times()[:2]) for p in them) for them in (hosts, self._switches))  # type: ignore[return-value]


@contextmanager
def _daemon(
    testbed: Testbed, node: str, program: str, config: str, place: Path, *arguments: str
) -> Iterator["subprocess.Popen[bytes]"]:
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text(config)
    argv = [sys.executable, "-m", program, "--config", str(place / "config.toml"), "--log-level", "INFO", *arguments]
    with (place / "log").open("wb") as log:
        process = testbed.nodes[node].popen(argv, env=dict(os.environ), stderr=log, stdout=log)
        # In a cluster a switch is a machine of its own, and hostd's unit puts it before the jobs' many threads.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _common(scenario: Scenario) -> str:
    slots = scenario.slots
    return f"[slots]\nlength_ms = {slots.length_ms}\nhorizon = {slots.horizon}\n{topology_text(scenario.topology)}"

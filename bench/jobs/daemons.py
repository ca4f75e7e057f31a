"""The daemons in the namespaces of a testbed, as an operator would start them: programs, configuration files, logs.

Daemons talk over the testbed's control network. A daemon is stopped by SIGTERM, and killed if that is not enough.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from bench.testbed.network import Testbed
from bench.testbed.toml_text import topology_text
from hostd.introspect.control import ask
from paceline.failure import Failure
from paceline.flowcore.model.scenario import SlotsSpec

PORT = 7470
START_S = 20.0
STOP_S = 10.0
# Hosts, switches and jobs share this machine's cores. In a cluster a switch is a machine of its own and a host has a
# core to spare; here a burst waits for the CPU that the daemon takes which it woke (`paceline bench jobs
# scenarios/testbed/mix-3.toml --control paceline`, with this and without).
NICE = 10


class DaemonFailed(Failure):
    """A daemon did not come up, ended or fell silent; str() is one line."""


class DaemonProcess:
    """One daemon, from `start` to `stop`; as a context manager it is stopped in any case."""

    def __init__(
        self, testbed: Testbed, node: str, program: str, config: str, place: Path, arguments: Sequence[str] = ()
    ) -> None:
        self.node, self.program, self.place = node, program, place
        self._namespace = testbed.nodes[node]
        self.config_path, self.log_path = place / "config.toml", place / "log"
        place.mkdir(parents=True, exist_ok=True)
        self.config_path.write_text(config)
        self.argv = [sys.executable, "-m", program, "--config", str(self.config_path), *arguments]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = self._namespace.popen(self.argv, env=dict(os.environ), stderr=log, stdout=log)
        os.setpriority(os.PRIO_PROCESS, self.process.pid, NICE)

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """Returns the exit status."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def status(self) -> dict[str, Any]:
        """Of a hostd; raises OSError while it does not answer."""
        return ask(self.place / "control.sock", "status")

    def require_running(self) -> None:
        """Raises DaemonFailed where the daemon has ended."""
        if self.process.poll() is not None:
            raise DaemonFailed(f"{self.program} on {self.node} ended: {self._last_log_line()}")

    def await_hostd(self, connected: bool = False, switches: Sequence["DaemonProcess"] = ()) -> None:
        """Until hostd answers and, if wanted, is connected to its switch; raises DaemonFailed.

        `switches`: where one of them has ended, hostd would wait for it in vain.
        """
        end_s = time.monotonic() + START_S
        while True:
            with suppress(OSError):
                if self.status()["switch"]["connected"] or not connected:
                    return
            for daemon in (*switches, self):
                daemon.require_running()
            if time.monotonic() > end_s:
                raise DaemonFailed(f"hostd on {self.node} did not come up: {self._last_log_line()}")
            time.sleep(0.02)

    def _last_log_line(self) -> str:
        return (self.log().splitlines() or ["nothing logged"])[-1]

    def cpu_s(self) -> float:
        """Of the daemon and all processes beside it, so far."""
        return sum(self.cpu_s_by_part().values())

    def cpu_s_by_part(self) -> dict[str, float]:
        """The same of the daemon itself, and of its guardian, its registrar and its workers."""
        own = psutil.Process(self.pid)
        spent_s = {self.program: _spent_s(own)}
        for child in own.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it has just ended
                part = _part(child)
                spent_s[part] = spent_s.get(part, 0.0) + _spent_s(child)
        return spent_s


def _spent_s(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _part(child: psutil.Process) -> str:
    """`python ... -m hostd.safety.guardian ...` is the guardian."""
    argv = child.cmdline()
    return argv[argv.index("-m") + 1].rpartition(".")[2] if "-m" in argv else "other"


def switchd(
    testbed: Testbed, switch: str, directory: Path, slots: SlotsSpec, policy: str = "paceline", more: str = ""
) -> DaemonProcess:
    """`more` are further lines of configuration."""
    control = testbed.addresses.control
    config = f"""
name = "{switch}"
listen = "{control[switch].ip}:{PORT}"
{_policy(policy)}
plaintext = true
{more}
{_common(testbed, slots)}
[parents]
""" + "".join(f'{parent} = "{control[parent].ip}:{PORT}"\n' for parent in testbed.topology.parents.get(switch, ()))
    return DaemonProcess(testbed, switch, "switchd", config, directory / f"switchd-{switch}")


def _hostd_place(directory: Path, host: str) -> Path:
    return directory / f"hostd-{host}"


def registration_socket(directory: Path, host: str) -> Path:
    """Where the host's hostd takes the counters of jobs."""
    return _hostd_place(directory, host) / "jobs" / "hostd.sock"


def hostd(
    testbed: Testbed,
    host: str,
    directory: Path,
    slots: SlotsSpec,
    policy: str = "paceline",
    *,
    mode: str = "enforce",
    backend: str = "htb",
    with_switch: bool = True,
    more: str = "",
    journal: Path | None = None,
) -> DaemonProcess:
    """Counters of the host's jobs are in `directory`/HOST; `more` are further lines of configuration."""
    place = _hostd_place(directory, host)
    tor = testbed.topology.switch_of[host]
    switch = f'switch = "{testbed.addresses.control[tor].ip}:{PORT}"' if with_switch else ""
    config = f"""
name = "{host}"
{switch}
{_policy(policy)}
mode = "{mode}"
backend = "{backend}"
plaintext = true
small_tso_bursts = true
shim_directory = "{directory / host}"
runtime_directory = "{place}"
{more}
{_common(testbed, slots)}
[addresses]
""" + "".join(f'{name} = "{address}"\n' for name, address in testbed.addresses.data.items())
    arguments = ["--journal", str(journal)] if journal else []
    return DaemonProcess(testbed, host, "hostd", config, place, arguments)


def _policy(named: str) -> str:
    """Of a policy with its objective (paceline:jct), as the daemons' configurations have them."""
    name, _, objective = named.partition(":")
    return f'policy = "{name}"' + (f'\nobjective = "{objective}"' if objective else "")


def _common(testbed: Testbed, slots: SlotsSpec) -> str:
    topology = topology_text(testbed.topology)
    return f"[slots]\nlength_ms = {slots.length_ms}\nhorizon = {slots.horizon}\n{topology}"

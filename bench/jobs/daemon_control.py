"""The daemons as a control of the testbed: a switchd in every switch's namespace, a hostd in every host's.

The congestion control of the data network stays cubic, as most clusters have it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.jobs.control import DaemonCpu
from bench.jobs.daemons import DaemonFailed, DaemonProcess, hostd, switchd
from bench.testbed.network import Testbed
from paceline.flowcore.model.background import FAIR
from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.model.weights import MOST

LIMITLESS_MODES = ("observe", "advise")  # of hostd, in which it sets no rate: what the daemons cost


class DaemonControl:
    congestion_control = "cubic"

    def __init__(
        self,
        policy: str,
        backend: str = "htb",
        mode: str = "enforce",
        journals: Path | None = None,
        name: str | None = None,
        throttled: bool = False,
        background: str = FAIR,
    ) -> None:
        """`throttled`: jobs over NCCL send through our net plugin, as under `paceline run --throttle`. `background`:
        what cross traffic gets beside them."""
        self.name = name or (policy if mode == "enforce" else mode)
        self.throttled = throttled
        self._policy, self._backend, self._mode, self._journals = policy, backend, mode, journals
        self._background = f'background = "{background}"\n'

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator["Daemons"]:
        topology, slots = scenario.topology, scenario.slots
        with ExitStack() as stack:
            more = f"{self._background}max_weight = {MOST}"
            switches = [
                stack.enter_context(switchd(testbed, switch, directory, slots, self._policy, more))
                for switch in reversed(topology.switches)
            ]
            hosts = [stack.enter_context(self._hostd(testbed, scenario, host, directory)) for host in topology.hosts]
            for host in hosts:
                host.await_hostd(connected=True, switches=switches)
            yield Daemons(hosts, switches)

    def _hostd(self, testbed: Testbed, scenario: Scenario, host: str, directory: Path) -> DaemonProcess:
        journal = self._journals / f"{host}.jsonl" if self._journals else None
        return hostd(
            testbed, host, directory, scenario.slots, self._policy,
            mode=self._mode, backend=self._backend, journal=journal,
            more=f"{self._background}[weights]\nmost = {MOST}",
        )  # fmt: skip


class Daemons:
    def __init__(self, hosts: Sequence[DaemonProcess], switches: Sequence[DaemonProcess]) -> None:
        self.hosts, self.switches = hosts, switches
        self.begin()

    def begin(self) -> None:
        self._began_s = time.monotonic()
        self._before = self._spent_s()
        self._fail_opens_before = self._all_fail_opens()

    def cpu(self) -> DaemonCpu:
        """A guardian counts as part of its hostd."""
        wall_s = max(1e-3, time.monotonic() - self._began_s)
        hosts_s, switches_s = (now - then for now, then in zip(self._spent_s(), self._before, strict=True))
        return DaemonCpu(100 * hosts_s / wall_s / len(self.hosts), 100 * switches_s / wall_s / len(self.switches))

    def fail_opens(self) -> int:
        return self._all_fail_opens() - self._fail_opens_before

    def _all_fail_opens(self) -> int:
        """Since the daemons started."""
        for daemon in (*self.hosts, *self.switches):
            daemon.require_running()
        return sum(status["fail_opens"] for status in self.statuses())

    def statuses(self) -> list[dict[str, Any]]:
        found = []
        for host in self.hosts:
            try:
                found.append(host.status())
            except OSError as error:
                raise DaemonFailed(f"hostd on {host.node} does not answer: {error}") from error
        return found

    def _spent_s(self) -> tuple[float, float]:
        return sum(host.cpu_s() for host in self.hosts), sum(switch.cpu_s() for switch in self.switches)

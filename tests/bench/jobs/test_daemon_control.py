"""Daemons that end, hang, do not start or give up control while jobs run."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.jobs.daemon_control import DaemonControl, Daemons
from bench.jobs.daemons import DaemonFailed, DaemonProcess
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.run import Conditions, run_once
from paceline.sim.scenario_file import read_scenario

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.mark.parametrize(("number", "said"), [(signal.SIGKILL, "ended"), (signal.SIGSTOP, "does not answer")])
def test_a_daemon_that_ends_or_hangs_spoils_the_run(small: Path, number: int, said: str) -> None:
    class Exposed(DaemonControl):
        @contextmanager
        def running(self, *where: Any) -> Iterator[Daemons]:
            with super().running(*where) as daemons:
                self.daemons = daemons
                yield daemons

    control = Exposed("paceline")
    scenario = replace(read_scenario(small), duration_s=2.0)

    def tick() -> None:
        control.daemons.hosts[1].signal(number)

    with (
        ForkServer(modules_for(scenario, "synthetic"), fork_server_environment()) as fork_server,
        pytest.raises(DaemonFailed, match=f"^hostd on h1 {said}"),
    ):
        run_once(scenario, control, Conditions("synthetic", 1), fork_server, tick)


def test_a_switch_that_does_not_start_is_named_not_the_hosts_that_wait_for_it(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = DaemonProcess.start

    def without_switchd(daemon: DaemonProcess) -> None:
        if daemon.program == "switchd":
            daemon.argv = [sys.executable, "-c", "raise SystemExit('no such module')"]
        start(daemon)

    monkeypatch.setattr(DaemonProcess, "start", without_switchd)
    scenario = read_scenario(small)
    with (
        ForkServer(modules_for(scenario, "synthetic"), fork_server_environment()) as fork_server,
        pytest.raises(DaemonFailed, match=r"^switchd on sw ended: no such module$"),
    ):
        run_once(scenario, DaemonControl("paceline"), Conditions("synthetic", 1), fork_server)


class FakeDaemon:
    """For a real one to give up control takes many seconds."""

    def __init__(self, fail_opens: int) -> None:
        self.fails = fail_opens

    def require_running(self) -> None:
        """It runs."""

    def status(self) -> dict[str, Any]:
        return {"fail_opens": self.fails}

    def cpu_s(self) -> float:
        return 0.0


def test_what_gave_up_control_before_the_jobs_began_is_not_counted() -> None:
    hosts = [FakeDaemon(2), FakeDaemon(1)]
    daemons = Daemons(hosts, [FakeDaemon(0)])  # type: ignore[arg-type]
    hosts[0].fails += 1
    assert daemons.fail_opens() == 1
    daemons.begin()
    assert daemons.fail_opens() == 0
    hosts[1].fails += 2
    assert daemons.fail_opens() == 2

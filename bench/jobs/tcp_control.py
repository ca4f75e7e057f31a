"""TCP as a control of the testbed: the kernel's congestion control and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.jobs.control import DaemonCpu, RunningControl
from bench.testbed.network import Testbed
from paceline.flowcore.model.scenario import Scenario

TCP = ("reno", "cubic", "bbr")
ALONE_CONTROL = "cubic"  # under which a job alone is measured, for all to be compared with


class NoDaemons:
    def begin(self) -> None:
        pass

    def cpu(self) -> DaemonCpu:
        return DaemonCpu()

    def fail_opens(self) -> int:
        return 0


class TcpControl:
    def __init__(self, name: str) -> None:
        self.name = self.congestion_control = name

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator[RunningControl]:
        yield NoDaemons()

"""TCP as a control of the testbed: the kernel's congestion control and nothing else; or MLTCP, which we bring."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from bench.jobs.control import DaemonCpu, RunningControl
from bench.jobs.launch import known_as
from bench.mltcp.control import NAME, Mltcp
from bench.mltcp.telling import Teller, telling
from bench.testbed.network import Testbed
from hostd.congestion.libbpf import BpfError
from paceline.flowcore.allocation.aggressiveness import PAPER, PUBLISHED_CODE
from paceline.flowcore.model.scenario import Scenario

TCP = ("reno", "cubic", "bbr")
MLTCP = {"mltcp": PAPER, "mltcp-4": PUBLISHED_CODE}
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


class MltcpControl:
    """Its sockets are told what they carry as soon as they have sent something; until then they are Reno's."""

    congestion_control = NAME

    def __init__(self, name: str) -> None:
        self.name, self._line = name, MLTCP[name]

    def lacks(self) -> str | None:
        """Why this kernel cannot run it."""
        try:
            _in_kernel()
        except BpfError as error:
            return str(error)
        return None

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator[RunningControl]:
        jobs = {known_as(job, number): job for number, job in enumerate(scenario.jobs)}
        host_of = {str(address): host for host, address in testbed.addresses.data.items()}
        counters = {host: directory / host for host in scenario.topology.hosts}
        with telling(Teller(_in_kernel(), jobs, host_of, counters, self._line)):
            yield NoDaemons()


@cache
def _in_kernel() -> Mltcp:
    """For as long as this process lives: routes name the control before anything runs. Raises BpfError."""
    return Mltcp()

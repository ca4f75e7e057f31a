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
from paceline.flowcore.model.scenario import JobSpec, Scenario

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


class MltcpRunning(NoDaemons):
    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    def place(self, job: JobSpec, number: int) -> None:
        self._teller.add(known_as(job, number), job)


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
        host_of = {str(address): host for host, address in testbed.addresses.data.items()}
        counters = {host: directory / host for host in scenario.topology.hosts}
        teller = Teller(_in_kernel(), host_of, counters, self._line)
        for number, job in enumerate(scenario.jobs):
            teller.add(known_as(job, number), job)
        with telling(teller):
            yield MltcpRunning(teller)


@cache
def _in_kernel() -> Mltcp:
    """For as long as this process lives: routes name the control before anything runs. Raises BpfError."""
    return Mltcp()

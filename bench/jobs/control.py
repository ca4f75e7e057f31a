"""What decides how fast the jobs of a run may send: TCP alone, or the daemons with one of their policies.

A control names the congestion control of the hosts' routes and, while the jobs run, keeps whatever processes it needs
in the testbed's namespaces; `cpu_percent` is what those took.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.testbed.network import Testbed, has_congestion_control
from paceline.failure import Failure
from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.policy import FOR_DAEMONS

TCP = ("reno", "cubic", "bbr")
WATCHING = ("observe", "advise")  # the daemons in a mode that sets nothing: what they cost
ALONE_CONTROL = "cubic"  # under which a job alone is measured, for all to be compared with


class ControlError(Failure):
    """The control cannot be used here; str() says why in one line."""


@dataclass(frozen=True, slots=True)
class DaemonCpu:
    """Of one core, mean over the daemons of the kind."""

    host_percent: float = 0.0
    switch_percent: float = 0.0


class Running(Protocol):
    def begin(self) -> None:
        """The jobs begin now: what is counted is counted from here."""

    def cpu(self) -> DaemonCpu:
        """What the control's processes have taken since."""

    def fail_opens(self) -> int:
        """How often one of them gave up control since; raises Failure where one has ended."""


class Control(Protocol):
    name: str
    congestion_control: str

    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> AbstractContextManager[Running]:
        """In force within the block. Each host's counters are in `directory`/HOST."""


class NoDaemons:
    def begin(self) -> None:
        pass

    def cpu(self) -> DaemonCpu:
        return DaemonCpu()

    def fail_opens(self) -> int:
        return 0


class TcpControl:
    """The kernel's congestion control and nothing else."""

    def __init__(self, name: str) -> None:
        self.name = self.congestion_control = name

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator[Running]:
        yield NoDaemons()


def control_named(name: str) -> Control:
    """Raises ControlError for what is no control."""
    if name in TCP:
        return TcpControl(name)
    if name in (*FOR_DAEMONS, *WATCHING):
        from bench.jobs.daemon_control import DaemonControl  # only who uses the daemons needs gRPC

        return DaemonControl("paceline", mode=name) if name in WATCHING else DaemonControl(name)
    raise ControlError(f"no control {name!r}; expected one of {', '.join((*TCP, *FOR_DAEMONS, *WATCHING))}")


def kernel_lacks(controls: Iterable[Control]) -> dict[str, str]:
    """By name, why those that cannot be used on this kernel cannot; asking loads what may be loaded."""
    return {
        control.name: f"this kernel has not loaded {name} (sudo modprobe tcp_{name})"
        for control in controls
        if not has_congestion_control(name := control.congestion_control)
    }


def require_kernel(controls: Iterable[Control]) -> None:
    """Raises ControlError unless all can be used."""
    for name, why in kernel_lacks(controls).items():
        raise ControlError(f"control {name!r}: {why}")

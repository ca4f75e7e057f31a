"""What decides how fast the jobs of a run may send: TCP alone, or the daemons with one of their policies.

A control names the congestion control of the hosts' routes and, while the jobs run, keeps whatever processes it needs
in the testbed's namespaces; `cpu` is what those took. The kinds are in tcp_control.py and daemon_control.py, and known
by name in control_names.py.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from bench.testbed.network import Testbed
from paceline.failure import Failure
from paceline.flowcore.model.scenario import JobSpec, Scenario


class ControlError(Failure):
    """The control cannot be used here; str() says why in one line."""


@dataclass(frozen=True, slots=True)
class DaemonCpu:
    """Of one core, mean over the daemons of the kind."""

    host_percent: float = 0.0
    switch_percent: float = 0.0


class RunningControl(Protocol):
    def begin(self) -> None:
        """The jobs begin now: everything is counted from here."""

    def cpu(self) -> DaemonCpu:
        """What the control's processes have taken since."""

    def fail_opens(self) -> int:
        """How often a daemon gave up control since; raises Failure where one has ended."""


@runtime_checkable
class ToldOfPlaces(Protocol):
    """A running control that must know where jobs run."""

    def place(self, job: JobSpec, number: int) -> None:
        """The scenario's job of this number starts on hosts that the scenario did not say."""


class Control(Protocol):
    name: str
    congestion_control: str

    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> AbstractContextManager[RunningControl]:
        """In force within the block. Each host's counters are in `directory`/HOST."""

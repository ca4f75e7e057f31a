"""What decides the rates in the array engine. The engine reports what happens to flows; a control sets their limits.

unpaced policies        no_control.py: nothing to decide
with an arbiter         arbitrated.py: one pass over arrays per reallocation, the switches' latency as a delay;
                        compiled_control.py: the same in C
mlcc, mlcc-open         planned/control.py: hosts and switches in C, message by message
any other               agents.py: the host and switch agents themselves; also for a policy with an arbiter that
                        overrides when it reports or what it enforces
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from paceline.cluster.gpu_sharing import Gpu
from paceline.flowcore.allocation.borrowing import Ints
from paceline.flowcore.host.policy import Policy
from paceline.flowcore.model.background import FAIR
from paceline.flowcore.model.slots import SlotClock
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.jobs import TrainingJob
from paceline.sim.kernel.flow_table import IntCells, cells

NEVER_NS = 2**62

Action = Callable[[], None]
At = Callable[[int, Action], None]  # call later, at a time in ns


@dataclass(slots=True, eq=False)
class NetworkJob:
    """A training job with its flows in the array network."""

    training: TrainingJob
    index: int  # its number in the network's `job` column
    numbers: Ints  # of its flows: their rows in the network's columns
    gpus: int = 1
    shared_gpus: Mapping[str, tuple[Gpu, ...]] = field(default_factory=dict)  # by worker; empty: GPUs of its own

    @property
    def name(self) -> str:
        return self.training.spec.name


class Control(Protocol):
    """Times are exact, also within a step; `run` is called when `next_ns` has come, a flow is through or something else
    has happened. `marked`: flows that have come to the mark that the control gave them in the network."""

    @property
    def decisions_ns(self) -> Sequence[int]: ...  # how long each took on the wall clock
    def joined(self, job: NetworkJob, now_ns: int) -> None: ...
    def left(self, job: NetworkJob, now_ns: int) -> None: ...
    def ready(self, job: NetworkJob, numbers: list[int], iteration: int, now_ns: int) -> None: ...
    def done(self, job: NetworkJob, number: int, now_ns: int) -> None: ...
    def iteration_ended(self, job: NetworkJob, host: str, now_ns: int) -> None: ...
    def next_ns(self) -> int: ...
    def run(self, now_ns: int, marked: Sequence[int]) -> None: ...

    def happen(self, until_ns: int, sequence: int) -> None:
        """Its own events before this one of the engine's, for a control that says in `pulse` that it has some."""


class Pulse:
    """Numbers that an engine shares with a control in C: the order of events, and when the control's next ones are."""

    SEQUENCE, OWN_NS, OWN_SEQUENCE, NEXT_NS = range(4)

    def __init__(self) -> None:
        self.numbers: Ints = np.array([0, NEVER_NS, 0, NEVER_NS])
        self.cells: IntCells = cells(self.numbers)


@dataclass(slots=True)
class ControlContext:
    """What a control works with."""

    policy: Policy
    clock: SlotClock
    network: ArrayNetwork
    latency_ns: int
    at: At = field(repr=False)
    pulse: Pulse = field(default_factory=Pulse)
    cross_traffic: bool = False  # there will be some: a flow can count for several beside it
    background: str = FAIR  # what is done about it (flowcore/model/background.py)

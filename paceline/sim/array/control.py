"""What decides the rates in the fast engine. The engine reports what happens to flows; a control sets their limits.

unpaced policies        nothing to decide
with an arbiter         arbitrated.py: one pass over arrays per settlement, the switches' latency as a delay
any other               agents.py: the host agents themselves, with one switch for all links
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paceline.cluster.shared import Gpu
from paceline.flowcore.allocation.borrowing import Ints
from paceline.flowcore.host.policy import Policy
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.policy.arbitrated import Arbitrated
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.jobs import TrainingJob

NEVER_NS = 2**62


@dataclass(slots=True, eq=False)
class Member:
    """A job in the network."""

    job: TrainingJob
    index: int  # its number in the network's `job` column
    numbers: Ints  # of its flows
    gpus: int = 1
    shared_gpus: Mapping[str, tuple[Gpu, ...]] = field(default_factory=dict)  # by worker; none: GPUs of its own


class Control(Protocol):
    """Times are exact, also within a step; `run` is called at the end of every step."""

    decisions_ns: Sequence[int]

    def joined(self, member: Member, now_ns: int) -> None: ...
    def left(self, member: Member, now_ns: int) -> None: ...
    def ready(self, member: Member, numbers: list[int], iteration: int, now_ns: int) -> None: ...
    def done(self, member: Member, number: int, now_ns: int) -> None: ...
    def iteration_ended(self, member: Member, host: str, now_ns: int) -> None: ...
    def next_ns(self) -> int: ...
    def run(self, now_ns: int) -> None: ...


@dataclass(slots=True)
class Surroundings:
    """What a control works with."""

    policy: Policy
    clock: SlotClock
    network: ArrayNetwork
    latency_ns: int
    at: Callable[[int, Callable[[], None]], None] = field(repr=False)  # call later, at a time


class NoControl:
    """TCP alone."""

    decisions_ns: Sequence[int] = ()

    def joined(self, member: Member, now_ns: int) -> None: ...
    def left(self, member: Member, now_ns: int) -> None: ...
    def ready(self, member: Member, numbers: list[int], iteration: int, now_ns: int) -> None: ...
    def done(self, member: Member, number: int, now_ns: int) -> None: ...
    def iteration_ended(self, member: Member, host: str, now_ns: int) -> None: ...
    def run(self, now_ns: int) -> None: ...

    def next_ns(self) -> int:
        return NEVER_NS


def control_for(around: Surroundings) -> Control:
    from paceline.sim.array.agents import AgentControl
    from paceline.sim.array.arbitrated import ArbitratedControl

    if not around.policy.paced:
        return NoControl()
    if isinstance(around.policy, Arbitrated):
        return ArbitratedControl(around)
    return AgentControl(around)

"""Jobs held back from communicating, in the engine. An exchange is one task: its flows start together, when the last
worker has computed and the schedule lets it, and it ends with the last of them.

    Gated      asks a gate of cluster.communication, in the order of remaining service, whenever a task is ready or ends
    Shifted    holds each job to the times CASSINI gave it, and lets those without one send when they like
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.cluster.cassini.drift import wait_ns
from paceline.cluster.communication import GATES, Running, Task
from paceline.cluster.communication.srsf import remaining_service_s
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import bytes_from_mb
from paceline.sim.array.control import Member
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.policy_names import CASSINI
from paceline.sim.trace.formats.job import exchange_s

Flows = list[tuple[FlowId, int]]


@dataclass
class Gating(ABC):
    """The task of each job: its flows wait for the last worker, then for `start`, then are counted off.

    Members are told apart by their index: a job that was stopped and goes on is another member of the same name.
    """

    send: Callable[[Member, Flows], None]
    _held: dict[int, Flows] = field(default_factory=dict)
    _computed: dict[int, int] = field(default_factory=dict)
    _running: dict[int, int] = field(default_factory=dict)

    def computed(self, member: Member, flows: Flows, now_ns: int) -> None:
        self._held.setdefault(member.index, []).extend(flows)
        self._computed[member.index] = self._computed.get(member.index, 0) + 1
        if self._computed[member.index] == len(member.job.workers):
            self.ready(member, now_ns)

    def start(self, member: Member) -> None:
        flows = self._held.pop(member.index)
        del self._computed[member.index]
        self._running[member.index] = len(flows)
        self.send(member, flows)

    def flow_done(self, member: Member, now_ns: int) -> None:
        self._running[member.index] -= 1
        if not self._running[member.index]:
            del self._running[member.index]
            self.ended(member)

    def left(self, member: Member) -> None:
        """It is through, or was stopped in the middle of whatever it did."""
        for of_members in (self._held, self._computed, self._running):
            of_members.pop(member.index, None)

    @abstractmethod
    def ready(self, member: Member, now_ns: int) -> None: ...

    def ended(self, member: Member) -> None:  # noqa: B027 - not every way to hold back cares
        pass


class Gated(Gating):
    def __init__(self, gate: str, network: ArrayNetwork, send: Callable[[Member, Flows], None]) -> None:
        super().__init__(send)
        self._gate = GATES[gate]
        self._network = network
        self._waiting: list[Member] = []
        self._sending: dict[int, tuple[Member, Task]] = {}

    def ready(self, member: Member, now_ns: int) -> None:
        self._waiting.append(member)
        self._admit()

    def ended(self, member: Member) -> None:
        del self._sending[member.index]
        self._admit()

    def left(self, member: Member) -> None:
        super().left(member)
        if member in self._waiting:
            self._waiting.remove(member)
        if self._sending.pop(member.index, None):
            self._admit()

    def _admit(self) -> None:
        for member in sorted(self._waiting, key=service_s):
            task = _task(member)
            if self._gate(task, [Running(other, self._remaining_bytes(one)) for one, other in self._sending.values()]):
                self._waiting.remove(member)
                self._sending[member.index] = member, task
                self.start(member)

    def _remaining_bytes(self, member: Member) -> float:
        """Of the message: as much as is left of its flows."""
        numbers, network = member.numbers, self._network
        left = (network.goal[numbers] - network.sent[numbers]).sum() / network.size[numbers].sum()
        return float(left) * bytes_from_mb(member.job.spec.model_mb)


class Shifted(Gating):
    def __init__(self, at: Callable[[int, Callable[[], None]], None], send: Callable[[Member, Flows], None]) -> None:
        super().__init__(send)
        self._at = at
        self.due: dict[str, tuple[int, int]] = {}  # job: when a communication is due, and every how many ns again
        self.adjusted = 0  # communications that were held back

    def ready(self, member: Member, now_ns: int) -> None:
        due = self.due.get(member.job.spec.name)
        waits_ns = wait_ns(now_ns, *due) if due else 0
        if not waits_ns:
            self.start(member)
            return
        self.adjusted += 1
        self._at(now_ns + waits_ns, lambda: self._due(member))

    def _due(self, member: Member) -> None:
        if member.index in self._held:  # it was not stopped while it waited
            self.start(member)

    def left(self, member: Member) -> None:
        super().left(member)
        self.due.pop(member.job.spec.name, None)


def service_s(member: Member) -> float:
    """L_J: what a job still needs, in GPU seconds."""
    job = member.job
    left = (job.goal or 0) - len(job.iteration_ends_ns)
    hosts = len(job.spec.workers)
    return remaining_service_s(member.gpus, left, job.spec.compute_s, exchange_s(job.spec.model_mb, hosts))


def _task(member: Member) -> Task:
    spec = member.job.spec
    return Task(spec.name, frozenset(member.job.hosts), bytes_from_mb(spec.model_mb))


def gating_for(
    communication: str | None,
    network: ArrayNetwork,
    at: Callable[[int, Callable[[], None]], None],
    send: Callable[[Member, Flows], None],
) -> Gating | None:
    if communication is None:
        return None
    return Shifted(at, send) if communication == CASSINI else Gated(communication, network, send)

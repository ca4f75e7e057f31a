"""Jobs held back from communicating, in the engine. An exchange is one task: its flows start together, when the last
worker has computed and the schedule lets it, and it ends with the last of them.

    Gated      asks a gate of flowcore.allocation, in the order of remaining service, whenever a task is ready or ends
    Shifted    holds each job to the times CASSINI gave it, and lets jobs without a time send when they are ready
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.flowcore.allocation.gates import GATES, Running, Task
from paceline.flowcore.allocation.gates.srsf import remaining_service_s
from paceline.flowcore.allocation.shifts.drift import adjusts, wait_ns
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import bytes_from_mb
from paceline.sim.all_reduce import exchange_s
from paceline.sim.array.control import At, NetworkJob
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.policy_names import CASSINI

Flows = list[tuple[FlowId, int]]  # with their iteration
Send = Callable[[NetworkJob, Flows], None]


@dataclass
class Gating(ABC):
    """The task of each job: its flows wait for the last worker, then for `start`, then are counted off.

    Jobs are told apart by their index: a job that was stopped and goes on has the same name and another index.
    """

    send: Send
    _held: dict[int, Flows] = field(default_factory=dict)
    _computed: dict[int, int] = field(default_factory=dict)
    _running: dict[int, int] = field(default_factory=dict)

    def computed(self, job: NetworkJob, flows: Flows, now_ns: int) -> None:
        self._held.setdefault(job.index, []).extend(flows)
        self._computed[job.index] = self._computed.get(job.index, 0) + 1
        if self._computed[job.index] == len(job.training.workers):
            self.ready(job, now_ns)

    def start(self, job: NetworkJob) -> None:
        flows = self._held.pop(job.index)
        del self._computed[job.index]
        self._running[job.index] = len(flows)
        self.send(job, flows)

    def flow_done(self, job: NetworkJob) -> None:
        self._running[job.index] -= 1
        if not self._running[job.index]:
            del self._running[job.index]
            self.ended(job)

    def left(self, job: NetworkJob) -> None:
        """It is through, or was stopped in the middle of whatever it did."""
        for of_jobs in (self._held, self._computed, self._running):
            of_jobs.pop(job.index, None)

    @abstractmethod
    def ready(self, job: NetworkJob, now_ns: int) -> None: ...

    def ended(self, job: NetworkJob) -> None:  # noqa: B027 - only a gate wants to know
        pass


class Gated(Gating):
    def __init__(self, gate: str, network: ArrayNetwork, send: Send) -> None:
        super().__init__(send)
        self._gate = GATES[gate]
        self._network = network
        self._waiting: list[NetworkJob] = []
        self._sending: dict[int, tuple[NetworkJob, Task]] = {}

    def ready(self, job: NetworkJob, now_ns: int) -> None:
        self._waiting.append(job)
        self._admit()

    def ended(self, job: NetworkJob) -> None:
        del self._sending[job.index]
        self._admit()

    def left(self, job: NetworkJob) -> None:
        super().left(job)
        if job in self._waiting:
            self._waiting.remove(job)
        if self._sending.pop(job.index, None):
            self._admit()

    def _admit(self) -> None:
        for job in sorted(self._waiting, key=service_s):
            task = _task(job)
            running = [Running(other, self._remaining_bytes(sender)) for sender, other in self._sending.values()]
            if self._gate(task, running):
                self._waiting.remove(job)
                self._sending[job.index] = job, task
                self.start(job)

    def _remaining_bytes(self, job: NetworkJob) -> float:
        """Of the message: as much as is left of its flows."""
        numbers, network = job.numbers, self._network
        left = (network.goal[numbers] - network.sent[numbers]).sum() / network.size[numbers].sum()
        return float(left) * bytes_from_mb(job.training.spec.model_mb)


class Shifted(Gating):
    def __init__(self, at: At, send: Send) -> None:
        super().__init__(send)
        self._at = at
        self.due: dict[str, tuple[int, int]] = {}  # job: when a communication is due, and every how many ns again
        self.adjustments = 0
        self.timed_ns = 0  # Σ over jobs: for how long they kept to times that they had before
        self._kept: dict[int, tuple[int, int]] = {}  # times that a job has had since its last communication

    def ready(self, job: NetworkJob, now_ns: int) -> None:
        due = self.due.get(job.name)
        if due and self._kept.get(job.index) == due:
            self.adjustments += adjusts(now_ns, *due)
            self.timed_ns += due[1]
        if due:
            self._kept[job.index] = due
        waits_ns = wait_ns(now_ns, *due) if due else 0
        if not waits_ns:
            self.start(job)
            return
        self._at(now_ns + waits_ns, lambda: self._due(job))

    def _due(self, job: NetworkJob) -> None:
        if job.index in self._held:  # it was not stopped while it waited
            self.start(job)

    def left(self, job: NetworkJob) -> None:
        super().left(job)
        self.due.pop(job.name, None)
        self._kept.pop(job.index, None)


def service_s(job: NetworkJob) -> float:
    """L_J: what a job still needs, in GPU seconds."""
    training, spec = job.training, job.training.spec
    left = (training.goal or 0) - len(training.iteration_ends_ns)
    return remaining_service_s(job.gpus, left, spec.compute_s, exchange_s(spec.model_mb, len(spec.workers)))


def _task(job: NetworkJob) -> Task:
    return Task(job.name, frozenset(job.training.hosts), bytes_from_mb(job.training.spec.model_mb))


def gating_for(
    communication: str | None,
    network: ArrayNetwork,
    at: At,
    send: Send,
) -> Gating | None:
    if communication is None:
        return None
    return Shifted(at, send) if communication == CASSINI else Gated(communication, network, send)

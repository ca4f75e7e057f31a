"""Exchanges that share servers (Ada-SRSF eq. 5), and which may start (§IV-B).

    k      of an exchange: the largest number of exchanges on any of its servers
    rate   1 / (k·b + (k − 1)·η) bytes a second, after a seconds of latency

    SRSF(n)    an exchange starts if fewer than n run on each of its servers
    AdaDUAL    it starts where none runs; beside one if M_new / M_old < b / (2(b + η)); never beside more (Algorithm 2).
               Only the first exchange met is examined: C_old grows only where a server has *more* than those before

Exchanges are asked in the order of their jobs' remaining service whenever an exchange ends or another becomes ready. In
between no answer changes: what M_old has left only shrinks.

`credited` is what the authors' simulator does beside that, in steps of a millisecond. To examine an exchange is to add
what it sent in the last step to what it has sent, which the step itself adds as well. AdaDUAL examines in every step
and for every exchange that waits, so an exchange that q others wait for goes (1 + q) times as fast. SRSF(n) examines
none.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.flowcore.allocation.gates.contention import Contention
from paceline.sim.eq5.job import Eq5Job


@dataclass(slots=True, eq=False)
class Sending:
    job: Eq5Job
    left_bytes: float
    since_s: float  # left_bytes were left; in the future while the latency lasts
    rate: float = 0.0  # bytes a second
    examined_by: int = 0  # q
    end_s: float = 0.0

    def left_at(self, now_s: float) -> float:
        return self.left_bytes - max(0.0, now_s - self.since_s) * self.rate


@dataclass(frozen=True, slots=True)
class Rule:
    """Which exchanges start beside others."""

    most: int | None = None  # n of SRSF(n); None: AdaDUAL
    credited: bool = False


class Exchanges:
    """Sets of servers are bits of integers here: every event asks every exchange that waits."""

    def __init__(self, servers: int, contention: Contention, rule: Rule) -> None:
        self._contention, self._rule = contention, rule
        self._on: list[list[Sending]] = [[] for _ in range(servers)]
        self._with = [0]  # [n]: servers with at least n exchanges; [0] is not used
        self._waiting: list[Eq5Job] = []
        self._sending: dict[Eq5Job, Sending] = {}

    def ready(self, job: Eq5Job) -> None:
        self._waiting.append(job)

    def ended(self, sending: Sending) -> None:
        del self._sending[sending.job]
        for server in sending.job.servers:
            self._with[len(self._on[server])] &= ~(1 << server)
            self._on[server].remove(sending)

    def decide(self, now_s: float) -> Iterator[Sending]:
        """Starts what may start; yields those whose end has moved."""
        self._waiting.sort(key=_turn)
        self._waiting = [job for job in self._waiting if not self._started(job, now_s)]
        if self._rule.credited:
            self._count_examined()
        for sending in self._sending.values():
            rate = self._rate(sending)
            if rate != sending.rate:
                sending.left_bytes, sending.since_s = sending.left_at(now_s), max(now_s, sending.since_s)
                sending.rate = rate
                sending.end_s = sending.since_s + max(0.0, sending.left_bytes) / rate
                yield sending

    def _started(self, job: Eq5Job, now_s: float) -> bool:
        if not self._may_start(job, now_s):
            return False
        sending = self._sending[job] = Sending(job, job.model.size_bytes, now_s + self._contention.a_s)
        for server in job.servers:
            self._on[server].append(sending)
            count = len(self._on[server])
            if count == len(self._with):
                self._with.append(0)
            self._with[count] |= 1 << server
        return True

    def _may_start(self, job: Eq5Job, now_s: float) -> bool:
        if self._rule.most is not None:
            return not job.server_bits & self._at_least(self._rule.most)
        met = self._examined(job)
        if met is None:
            return not job.server_bits & self._at_least(1)
        return job.model.size_bytes < self._contention.worthwhile * met.left_at(now_s)

    def _at_least(self, count: int) -> int:
        return self._with[count] if count < len(self._with) else 0

    def _examined(self, job: Eq5Job) -> Sending | None:
        """The one that AdaDUAL looks at; None where it looks at none, since there is none, or there are too many."""
        met = job.server_bits & self._at_least(1)
        if not met or job.server_bits & self._at_least(2):
            return None
        first = (met & -met).bit_length() - 1
        return self._on[first][0]

    def _count_examined(self) -> None:
        for sending in self._sending.values():
            sending.examined_by = 0
        for job in self._waiting:
            met = self._examined(job)
            if met is not None:
                met.examined_by += 1

    def _rate(self, sending: Sending) -> float:
        tasks, contention = 1, self._contention
        while sending.job.server_bits & self._at_least(tasks + 1):
            tasks += 1
        return (1 + sending.examined_by) / (tasks * contention.b_s + (tasks - 1) * contention.eta_s)


def _turn(job: Eq5Job) -> tuple[float, int]:
    return job.turn

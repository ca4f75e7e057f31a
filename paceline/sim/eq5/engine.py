"""The event engine `analytic-eq5`: jobs share GPUs and servers as Ada-SRSF models it (§III, Algorithm 3).

    place     whenever a job comes or ends, jobs that wait get GPUs with memory left, least C_J · |G| first
    compute   a GPU runs one forward or backward task at a time, to its end; next is the ready job with the least L_J
    exchange  when all workers are through with both, and their GPUs are on several servers (exchanges.py); else at once

Everything that happens at one instant is taken in before anything is decided, in this order, as in Algorithm 3. Beside
it, time is not cut into steps. The jobs of §V, two million iterations of a worker, take about twenty
seconds of a core.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from random import Random

from paceline.flowcore.allocation.gates.contention import Contention
from paceline.sim.eq5.exchanges import Exchanges, Rule, Sending
from paceline.sim.eq5.job import Eq5Job
from paceline.sim.eq5.placement import PLACEMENTS, Gpus


@dataclass(frozen=True, slots=True)
class Cluster:
    servers: int
    gpus_per_server: int
    memory_mb: int
    contention: Contention


@dataclass(slots=True, eq=False)
class Task:
    """Forward or backward, of one worker."""

    job: Eq5Job
    duration_s: float
    following: "Task | None"


@dataclass(slots=True, eq=False)
class Computing:
    """Workers of a job that do the same since the same instant."""

    task: Task
    gpus: list[int]


Event = Eq5Job | Computing | Sending  # a job comes, a task is through, an exchange is


class Eq5Engine:
    def __init__(self, cluster: Cluster, placement: str, rule: Rule, draws: Random) -> None:
        self.gpus = Gpus(cluster.servers, cluster.gpus_per_server, cluster.memory_mb)
        self.now_s = 0.0
        self.busy_s = 0.0  # Σ over GPUs
        self._contention = cluster.contention
        self._place, self._draws = PLACEMENTS[placement], draws
        self._exchanges = Exchanges(cluster.servers, cluster.contention, rule)
        count = cluster.servers * cluster.gpus_per_server
        self._queue: list[Eq5Job] = []
        self._ready: list[list[Task]] = [[] for _ in range(count)]  # by GPU
        self._forward: dict[Eq5Job, Task] = {}
        self._busy = [False] * count
        self._events: list[tuple[float, int, Event]] = []  # by time; ties in the order of their making
        self._made = 0
        self._changed: dict[int, None] = {}  # GPUs that may begin something
        self._comes_or_goes = self._communicates = False

    def run(self, jobs: Sequence[Eq5Job]) -> None:
        """Until every job is through."""
        for job in jobs:
            self._at(job.arrival_s, job)
        events = self._events
        while events:
            self.now_s = events[0][0]
            while events and events[0][0] == self.now_s:
                self._happens(heapq.heappop(events)[2])
            if self._comes_or_goes:
                self._place_jobs()
            if self._communicates:
                for sending in self._exchanges.decide(self.now_s):
                    self._at(sending.end_s, sending)
            self._compute()
            self._comes_or_goes = self._communicates = False

    def _at(self, time_s: float, event: Event) -> None:
        self._made += 1
        heapq.heappush(self._events, (time_s, self._made, event))

    def _happens(self, event: Event) -> None:
        if isinstance(event, Computing):
            self._computed(event)
        elif isinstance(event, Eq5Job):
            self._queue.append(event)
            self._comes_or_goes = True
        elif event.end_s == self.now_s:  # or else its end has moved
            event.end_s = -inf
            self._exchanges.ended(event)
            self._communicates = True
            self._iterated(event.job)

    def _computed(self, through: Computing) -> None:
        task, job = through.task, through.task.job
        for gpu in through.gpus:
            self._busy[gpu] = False
            self._changed[gpu] = None
        if task.following is not None:
            for gpu in through.gpus:
                self._ready[gpu].append(task.following)
            return
        job.computing -= len(through.gpus)
        if job.computing:
            return
        if len(job.servers) > 1:
            self._exchanges.ready(job)
            self._communicates = True
        else:
            self._iterated(job)

    def _iterated(self, job: Eq5Job) -> None:
        job.left -= 1
        job.count_service()
        if job.left:
            self._begin(job)
            return
        job.end_s = self.now_s
        self.gpus.give_back(job)
        self._comes_or_goes = True

    def _begin(self, job: Eq5Job) -> None:
        """An iteration."""
        job.computing = job.gpus
        forward = self._forward[job]
        for gpu in job.held:
            self._ready[gpu].append(forward)
            self._changed[gpu] = None

    def _place_jobs(self) -> None:
        for job in sorted(self._queue, key=lambda job: (_compute_service_s(job), job.number)):
            roomy = self.gpus.with_room(job.model.memory_mb)
            if len(roomy) >= job.gpus:
                chosen = self._place(job.gpus, roomy, self.gpus, self._draws)
                self.gpus.take(job, chosen, self._contention.all_reduce_s(job.model.size_bytes))
                self._queue.remove(job)
                self._forward[job] = Task(job, job.model.forward_s, Task(job, job.model.backward_s, None))
                self._begin(job)

    def _compute(self) -> None:
        """GPUs that are free take the ready job with the least remaining service. Workers of a job that begin a task
        together end it together: one event."""
        begun: dict[Task, list[int]] = {}
        for gpu in self._changed:
            ready = self._ready[gpu]
            if ready and not self._busy[gpu]:
                task = ready[0] if len(ready) == 1 else min(ready, key=_turn)
                ready.remove(task)
                self._busy[gpu] = True
                begun.setdefault(task, []).append(gpu)
        for task, gpus in begun.items():
            self.busy_s += task.duration_s * len(gpus)
            self._at(self.now_s + task.duration_s, Computing(task, gpus))
        self._changed.clear()


def _turn(task: Task) -> tuple[float, int]:
    return task.job.turn


def _compute_service_s(job: Eq5Job) -> float:
    """C_J · |G|: before it is placed, what a job will exchange is not known (§IV-A)."""
    return job.left * (job.model.forward_s + job.model.backward_s) * job.gpus

"""Training jobs: workers compute, exchange, and begin again.

A worker's iteration is one or more equal pieces. In each it computes, then exchanges a burst: it sends its flows and
receives those meant for it. Beside the exchange it may go on computing (the overlap). The next piece starts when all of
that is through; with c a piece's computing, f the overlap and v its exchange, a piece alone takes

    (1 − f)·c + max(f·c, v)

Workers of a job wait for each other only through the bytes they exchange, as real ones do. Compute times are drawn per
worker and iteration from a generator seeded by (seed, job, worker), so a job computes the same in every run, alone or
not, under any policy. Measured straggler factors may take the place of the normal distribution.
"""

import random
from array import array
from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field

from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role, downstream_of, flows_of
from paceline.flowcore.model.scenario import JobSpec
from paceline.flowcore.model.units import UNLIMITED, ns_from_s

# A compute time is never drawn below this part of its mean: a normal distribution has no such bound.
SHORTEST_COMPUTE = 0.1


Series = tuple[tuple[float, ...], ...]  # measured compute times of workers, relative to the mean


@dataclass(slots=True)
class Worker:
    host: str
    sends: frozenset[FlowId]
    exchange: frozenset[FlowId]  # all flows it sends or receives
    draws: random.Random
    factors: Sequence[float] = ()  # of its compute time, one iteration after the other; empty: draw them
    iteration: int = 0
    burst: int = 0  # of the iteration: which piece this is
    piece_ns: int = 0  # of computing, in each piece of this iteration
    computed: bool = False  # as far as comes before the burst
    computes_beside: bool = False  # its burst
    pending: set[FlowId] = field(default_factory=set)


class TrainingJob:
    def __init__(self, spec: JobSpec, seed: int, stragglers: Series = ()) -> None:
        self.spec = spec
        self._stragglers = stragglers
        self.flows: tuple[FlowSpec, ...] = flows_of(spec)
        self.downstream = downstream_of(self.flows)
        self.goal = spec.iterations  # a driver that skips time lowers it by the iterations it skips
        self.iteration_ends_ns: MutableSequence[int] = array("q")  # eight bytes each: a large run has millions
        self.workers = {host: self._worker(host, seed) for host in spec.workers}
        self._pulls = {
            server: frozenset(f.flow for f in self.flows if f.flow.role is Role.PULL and f.flow.source == server)
            for server in spec.servers
        }
        self._pulls_left = {server: set(pulls) for server, pulls in self._pulls.items()}
        self._served = dict.fromkeys(spec.servers, 0)  # bursts each server has begun to answer
        self._size_bytes = {f.flow: f.size_bytes for f in self.flows}

    def _worker(self, host: str, seed: int) -> Worker:
        # A host that is also a server sends pulls too, but those are the server's, not this worker's.
        sends = frozenset(f.flow for f in self.flows if f.flow.source == host and f.flow.role is not Role.PULL)
        receives = frozenset(f.flow for f in self.flows if f.flow.target == host and f.flow.role is not Role.PUSH)
        draws = random.Random(f"{seed}/{self.spec.name}/{host}")
        return Worker(host, sends, sends | receives, draws, _walk(self._stragglers, draws))

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.spec.workers, *self.spec.servers]))

    @property
    def finished(self) -> bool:
        return len(self.iteration_ends_ns) == self.goal

    def compute_ns(self, worker: Worker) -> int:
        """How long this worker's next compute phase takes."""
        if worker.factors:
            factor = worker.factors[worker.iteration % len(worker.factors)]
            return ns_from_s(self.spec.compute_s * factor)
        factor = worker.draws.gauss(1.0, self.spec.jitter) if self.spec.jitter else 1.0
        return ns_from_s(self.spec.compute_s * max(SHORTEST_COMPUTE, factor))

    def piece_ns(self, worker: Worker) -> tuple[int, int]:
        """How long this worker computes in its next piece: before the burst, and beside it."""
        if worker.burst == 0:
            worker.piece_ns = self.compute_ns(worker) // self.spec.bursts
        beside_ns = round(self.spec.overlap * worker.piece_ns)
        return worker.piece_ns - beside_ns, beside_ns

    def until_bytes(self, flow: FlowId) -> float:
        """Where the burst that has just started ends, of the iteration's bytes."""
        bursts = self.spec.bursts
        is_pull = flow.role is Role.PULL
        number = (self._served[flow.source] - 1) % bursts if is_pull else self.workers[flow.source].burst
        return UNLIMITED if number == bursts - 1 else self._size_bytes[flow] * (number + 1) / bursts

    def computed(self, worker: Worker) -> Iterator[tuple[FlowId, int]]:
        """The worker's computing before a burst is over; yields the flows that start, with their iteration."""
        worker.computed = True
        worker.computes_beside = self.spec.overlap > 0.0
        worker.pending = set(worker.exchange)
        for flow in sorted(worker.sends):
            yield flow, worker.iteration
        for server, pulls in self._pulls.items():
            # The first broadcast bytes exist once every worker has begun to push.
            served, bursts = self._served[server], self.spec.bursts
            began = all(w.computed and w.iteration * bursts + w.burst >= served for w in self.workers.values())
            if began:
                iteration = served // bursts
                self._served[server] += 1
                self._pulls_left[server] = set(pulls)
                for flow in sorted(pulls):
                    yield flow, iteration

    def flow_done(self, flow: FlowId, now_ns: int) -> Iterator[Worker | str]:
        """Yields the workers that go on, and by name the servers that have answered every worker in this iteration.

        A worker that goes on has `burst` 0 where its iteration is over.
        """
        for host in dict.fromkeys((flow.source, flow.target)):
            worker = self.workers.get(host)
            if worker is not None and flow in worker.pending:
                worker.pending.discard(flow)
                if self._goes_on(worker, now_ns):
                    yield worker
        if flow.role is Role.PULL:
            left = self._pulls_left[flow.source]
            left.discard(flow)
            if not left and flow.source not in self.workers and self._served[flow.source] % self.spec.bursts == 0:
                yield flow.source

    def computed_beside(self, worker: Worker, now_ns: int) -> bool:
        """The computing beside a burst is over; whether the worker goes on."""
        worker.computes_beside = False
        return self._goes_on(worker, now_ns)

    def _goes_on(self, worker: Worker, now_ns: int) -> bool:
        if worker.pending or worker.computes_beside or not worker.computed:
            return False
        worker.computed = False
        worker.burst = (worker.burst + 1) % self.spec.bursts
        if worker.burst == 0:
            worker.iteration += 1
            slowest = min(other.iteration for other in self.workers.values())
            if slowest > len(self.iteration_ends_ns):
                self.iteration_ends_ns.append(now_ns)
        return True


def _walk(stragglers: Series, draws: random.Random) -> Sequence[float]:
    """One measured series, begun at a place of the worker's own."""
    if not stragglers:
        return ()
    chosen = draws.choice(stragglers)
    start = draws.randrange(len(chosen))
    return chosen[start:] + chosen[:start]

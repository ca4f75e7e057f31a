"""Training jobs: workers compute, exchange, and begin again.

A worker's iteration is its compute phase followed by its exchange: it sends its flows and receives those meant for
it, and the next iteration starts when both are through. Workers of a job wait for each other only through the bytes
they exchange, as real ones do. Compute times are drawn per worker from a generator seeded by (seed, job, worker), so
a job computes the same in every run, alone or not, under any policy. Measured straggler factors may take the place of
the normal distribution.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role, downstream_of, flows_of
from paceline.flowcore.model.scenario import JobSpec
from paceline.flowcore.model.units import ns_from_s

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
    computed: bool = False
    pending: set[FlowId] = field(default_factory=set)


class TrainingJob:
    def __init__(self, spec: JobSpec, seed: int, stragglers: Series = ()) -> None:
        self.spec = spec
        self._stragglers = stragglers
        self.flows: tuple[FlowSpec, ...] = flows_of(spec)
        self.downstream = downstream_of(self.flows)
        self.goal = spec.iterations  # a driver that skips time lowers it by the iterations it skips
        self.iteration_ends_ns: list[int] = []
        self.workers = {host: self._worker(host, seed) for host in spec.workers}
        self._pulls = {
            server: frozenset(f.flow for f in self.flows if f.flow.role is Role.PULL and f.flow.source == server)
            for server in spec.servers
        }
        self._pulls_left = {server: set(pulls) for server, pulls in self._pulls.items()}
        self._served = dict.fromkeys(spec.servers, 0)  # iterations each server has begun to answer

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

    def computed(self, worker: Worker) -> Iterator[tuple[FlowId, int]]:
        """The worker's compute phase is over; yields the flows that start, with their iteration."""
        worker.computed = True
        worker.pending = set(worker.exchange)
        for flow in sorted(worker.sends):
            yield flow, worker.iteration
        for server, pulls in self._pulls.items():
            # The first broadcast bytes exist once every worker has begun to push.
            began = all(w.computed and w.iteration >= self._served[server] for w in self.workers.values())
            if began:
                iteration = self._served[server]
                self._served[server] += 1
                self._pulls_left[server] = set(pulls)
                for flow in sorted(pulls):
                    yield flow, iteration

    def flow_done(self, flow: FlowId, now_ns: int) -> Iterator[Worker | str]:
        """Yields the workers whose iteration this ends, and by name the servers that have answered every worker."""
        for host in dict.fromkeys((flow.source, flow.target)):
            worker = self.workers.get(host)
            if worker is not None and flow in worker.pending:
                worker.pending.discard(flow)
                if not worker.pending and worker.computed:
                    worker.computed = False
                    worker.iteration += 1
                    slowest = min(other.iteration for other in self.workers.values())
                    if slowest > len(self.iteration_ends_ns):
                        self.iteration_ends_ns.append(now_ns)
                    yield worker
        if flow.role is Role.PULL:
            left = self._pulls_left[flow.source]
            left.discard(flow)
            if not left and flow.source not in self.workers:
                yield flow.source


def _walk(stragglers: Series, draws: random.Random) -> Sequence[float]:
    """One measured series, begun at a place of the worker's own."""
    if not stragglers:
        return ()
    chosen = draws.choice(stragglers)
    start = draws.randrange(len(chosen))
    return chosen[start:] + chosen[:start]

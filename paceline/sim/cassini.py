"""CASSINI over the simulator's jobs: what each puts on which link, where the next job goes, and when all are due.

A job's footprint is what it would show alone: it computes, then sends for as long as its busiest link takes. The mean
of the slowest of n workers that jitter counts as computing, or the job would be late for ever.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist

from paceline.cluster.cassini.ranking import best
from paceline.flowcore.allocation.shifts.drift import slack
from paceline.flowcore.allocation.shifts.footprint import Footprint, shared_links
from paceline.flowcore.allocation.shifts.plan import Plan, plan
from paceline.flowcore.allocation.shifts.times import COMPATIBLE, Due, due_times
from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import JobSpec
from paceline.flowcore.model.topology import Topology


def footprint(spec: JobSpec, topology: Topology) -> Footprint:
    on_link_bits: dict[str, float] = {}
    for flow in flows_of(spec):
        for link in topology.path(flow.flow.source, flow.flow.target, str(flow.flow)):
            on_link_bits[link] = on_link_bits.get(link, 0.0) + flow.size_bytes * 8
    sends_s = max((bits / topology.links[link].capacity_bps for link, bits in on_link_bits.items()), default=0.0)
    workers = len(spec.workers)
    slowest = 1.0 + spec.jitter * NormalDist().inv_cdf((workers - 0.375) / (workers + 0.25))  # Blom
    compute_s = spec.compute_s * slowest
    return Footprint.of(compute_s, sends_s, on_link_bits, slack(spec.jitter, compute_s, compute_s + sends_s))


class Cassini:
    def __init__(self, topology: Topology, *, by_sum: bool = False) -> None:
        self._by_sum = by_sum
        self._capacity_bps = {name: link.capacity_bps for name, link in topology.links.items()}
        self._footprint = lru_cache(maxsize=4096)(lambda spec: footprint(spec, topology))
        self._jobs: dict[str, Footprint] = {}  # those in the network, oldest first

    def choose(self, candidates: Sequence[JobSpec], others: Iterable[JobSpec]) -> int:
        """Which of these placements of one job is best, beside the other jobs."""
        beside = {spec.name: self._footprint(spec) for spec in others}
        ways = [shared_links(beside | {spec.name: self._footprint(spec)}, self._capacity_bps) for spec in candidates]
        return best(ways, COMPATIBLE, by_sum=self._by_sum)[0]

    def joined(self, spec: JobSpec) -> None:
        self._jobs[spec.name] = self._footprint(spec)

    def left(self, name: str) -> None:
        self._jobs.pop(name, None)

    def plan(self) -> Plan:
        return plan(shared_links(self._jobs, self._capacity_bps), COMPATIBLE)

    def due(self, before: Due, now_ns: int) -> Due:
        """When each job's communications are due."""
        return due_times(self.plan(), self._jobs, before, now_ns)

"""CASSINI over the simulator's jobs: what each puts on which link, where the next job goes, and when all are due.

A job's profile is what it would show alone: it computes, then sends for as long as its busiest link takes, at the rate
that spreads its bytes over that time on every other link. The mean of the slowest of n workers that jitter counts
as computing, or the job would be late for ever.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from paceline.cluster.cassini.circle import Phase, Profile
from paceline.cluster.cassini.drift import slack
from paceline.cluster.cassini.ranking import Link, Plan, best, plan
from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import JobSpec
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import gbps_from_bps, ns_from_ms

# Only jobs that fit are held to times (§5.7): a job that meets others is late, and waits for its next time in vain.
COMPATIBLE = 0.95

Due = dict[str, tuple[int, int]]  # job: when a communication is due, and every how many ns again


@dataclass(frozen=True, slots=True)
class Footprint:
    """A job as its links see it."""

    compute_ms: float
    profiles: Mapping[str, Profile]
    slack: float  # cassini/drift.py


def footprint(spec: JobSpec, topology: Topology) -> Footprint:
    on_link_bits: dict[str, float] = {}
    for flow in flows_of(spec):
        for link in topology.path(flow.flow.source, flow.flow.target, str(flow.flow)):
            on_link_bits[link] = on_link_bits.get(link, 0.0) + flow.size_bytes * 8
    sends_s = max((bits / topology.links[link].capacity_bps for link, bits in on_link_bits.items()), default=0.0)
    workers = len(spec.workers)
    slowest = 1.0 + spec.jitter * NormalDist().inv_cdf((workers - 0.375) / (workers + 0.25))  # Blom
    compute_ms, sends_ms = 1e3 * spec.compute_s * slowest, 1e3 * sends_s
    phases = {
        link: (Phase(compute_ms, sends_ms, gbps_from_bps(bits / sends_s)),) for link, bits in on_link_bits.items()
    }
    profiles = {link: Profile(compute_ms + sends_ms, up) for link, up in phases.items()}
    return Footprint(compute_ms, profiles, slack(spec.jitter, compute_ms, compute_ms + sends_ms))


class Cassini:
    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._footprint = lru_cache(maxsize=4096)(lambda spec: footprint(spec, topology))
        self._jobs: dict[str, Footprint] = {}  # those in the network, oldest first

    def choose(self, candidates: Sequence[JobSpec], others: Iterable[JobSpec]) -> int:
        """Which of these placements of one job is best, beside the other jobs."""
        beside = {spec.name: self._footprint(spec) for spec in others}
        ways = [self._links(beside | {spec.name: self._footprint(spec)}) for spec in candidates]
        return best(ways, COMPATIBLE)[0]

    def joined(self, spec: JobSpec) -> None:
        self._jobs[spec.name] = self._footprint(spec)

    def left(self, name: str) -> None:
        self._jobs.pop(name, None)

    def plan(self) -> Plan:
        return plan(self._links(self._jobs), COMPATIBLE)

    def due(self, before: Due, now_ns: int) -> Due:
        """When each job's communications are due. In every connected part the oldest job that had a time keeps it."""
        found, times = self.plan(), {}
        for part in found.parts_ms:
            phase_ns = {job: ns_from_ms(shift_ms + self._jobs[job].compute_ms) for job, shift_ms in part.items()}
            timed = [job for job in self._jobs if job in part and job in before]
            origin_ns = before[timed[0]][0] - phase_ns[timed[0]] if timed else now_ns
            longer = 1.0 + max(
                self._jobs[job].slack for job in part
            )  # one factor, or they would turn against each other
            for job in part:
                times[job] = origin_ns + phase_ns[job], ns_from_ms(longer * found.iterations_ms[job])
        return times

    def _links(self, jobs: Mapping[str, Footprint]) -> dict[str, Link]:
        on_link: dict[str, dict[str, Profile]] = {}
        for name, job in jobs.items():
            for link, profile in job.profiles.items():
                on_link.setdefault(link, {})[name] = profile
        capacity = self._topology.links
        return {
            link: Link(gbps_from_bps(capacity[link].capacity_bps), profiles)
            for link, profiles in on_link.items()
            if len(profiles) > 1
        }

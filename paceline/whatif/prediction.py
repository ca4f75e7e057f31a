"""What jobs lose to collisions now, and what they would gain, by simulating the jobs that were watched.

    now        T / T⁰ as measured, of a job that was watched without limits; under `fair` as simulated, of one with
    expected   as simulated under `paceline`
    lost       1 − 1/s    the part of a job's time that it would not have needed alone
    gain       1 − mean(s expected) / mean(s now)    over the jobs

Jobs that share no link with another, directly or through others, lose nothing and are not simulated. Jobs begin at
drawn times; the mean is over DRAWS of them.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from paceline.flowcore.demand.slowdown import link_bytes
from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import JobSpec, Scenario
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import transfer_ns
from paceline.sim.array.engine import run_scenario
from paceline.sim.parameters import DEFAULT_LATENCY_MS
from paceline.sim.run import job_result, run
from paceline.whatif.measured import MeasuredCluster, MeasuredJob

DRAWS = 3
ITERATIONS, LEAST_S, MOST_S = 60, 5.0, 600.0  # simulated: so many of the slowest job, within these bounds
MANY_JOBS = 24  # that share links: more than that the array engine simulates
NOW, EXPECTED = "fair", "paceline"


@dataclass(frozen=True, slots=True)
class JobPrediction:
    job: MeasuredJob
    slowdown_now: float
    slowdown_fair: float  # as simulated
    slowdown_expected: float
    links: Mapping[str, float]  # the part of each link's time that the job needs alone

    @property
    def lost(self) -> float:
        return 1 - 1 / self.slowdown_now

    @property
    def lost_expected(self) -> float:
        return 1 - 1 / self.slowdown_expected

    @property
    def gain(self) -> float:
        return 1 - self.slowdown_expected / self.slowdown_now


@dataclass(frozen=True, slots=True)
class LinkPrediction:
    link: str
    jobs: tuple[str, ...]
    load: float  # what the jobs need of it, alone; above 1 they cannot all be as fast as alone
    lost: float  # mean over its jobs
    lost_expected: float


@dataclass(frozen=True, slots=True)
class Prediction:
    jobs: tuple[JobPrediction, ...]
    links: tuple[LinkPrediction, ...]  # that jobs share; the most loaded first
    seed: int

    @property
    def mean_now(self) -> float:
        return fmean(job.slowdown_now for job in self.jobs)

    @property
    def mean_expected(self) -> float:
        return fmean(job.slowdown_expected for job in self.jobs)

    @property
    def gain(self) -> float:
        return 1 - self.mean_expected / self.mean_now

    @property
    def lost(self) -> float:
        return fmean(job.lost for job in self.jobs)


def predict(
    cluster: MeasuredCluster, seed: int = 1, latency_ms: float = DEFAULT_LATENCY_MS, draws: int = DRAWS
) -> Prediction:
    """At least one job must have been measured."""
    shares = {job.spec.name: _shares(job, cluster.topology) for job in cluster.jobs}
    slowdowns: dict[str, dict[str, float]] = {NOW: {}, EXPECTED: {}}
    for group in _groups(cluster.jobs, shares):
        for policy in (NOW, EXPECTED):
            slowdowns[policy] |= _simulated(cluster, group, policy, seed, latency_ms, draws)
    jobs = []
    for job in cluster.jobs:
        fair, expected = (slowdowns[policy][job.spec.name] for policy in (NOW, EXPECTED))
        now = fair if job.paced else max(1.0, job.iteration_s / job.alone_s)
        jobs.append(JobPrediction(job, now, fair, expected, shares[job.spec.name]))
    links = sorted(_links(jobs), key=lambda link: (-link.load, link.link))
    return Prediction(tuple(jobs), tuple(links), seed)


def _shares(job: MeasuredJob, topology: Topology) -> dict[str, float]:
    carried = link_bytes({flow.flow: flow.size_bytes for flow in flows_of(job.spec)}, topology)
    return {
        link: transfer_ns(size, topology.links[link].capacity_bps) / 1e9 / job.alone_s for link, size in carried.items()
    }


def _groups(jobs: Sequence[MeasuredJob], links: Mapping[str, Iterable[str]]) -> Iterator[list[MeasuredJob]]:
    """Jobs that share links, directly or through other jobs."""
    left = list(jobs)
    while left:
        group = [left.pop(0)]
        reached = set(links[group[0].spec.name])
        while joining := [job for job in left if reached & set(links[job.spec.name])]:
            group += joining
            left = [job for job in left if job not in joining]
            reached |= {link for job in joining for link in links[job.spec.name]}
        yield group


def _simulated(
    cluster: MeasuredCluster, group: Sequence[MeasuredJob], policy: str, seed: int, latency_ms: float, draws: int
) -> dict[str, float]:
    """Mean slowdown of each job over the draws."""
    if len(group) == 1:
        return {group[0].spec.name: 1.0}
    slowest_s = max(job.alone_s for job in group)
    duration_s = min(MOST_S, max(LEAST_S, ITERATIONS * slowest_s))
    alone_s = {job.spec.name: job.alone_s for job in group}
    found: dict[str, list[float]] = {}
    for number in range(draws):
        draw = random.Random(f"{seed}/{number}")
        specs = tuple(replace(job.spec, start_s=draw.uniform(0.0, job.alone_s)) for job in group)
        scenario = Scenario("whatif", seed + number, duration_s, cluster.slots, cluster.topology, specs, ())
        for name, slowdown in _slowdowns(scenario, specs, policy, alone_s, latency_ms):
            found.setdefault(name, []).append(max(1.0, slowdown))
    return {name: fmean(slowdowns) for name, slowdowns in found.items()}


def _slowdowns(
    scenario: Scenario, specs: Sequence[JobSpec], policy: str, alone_s: Mapping[str, float], latency_ms: float
) -> Iterator[tuple[str, float]]:
    if len(specs) <= MANY_JOBS:
        for result in run(scenario, policy, alone_s=alone_s, latency_ms=latency_ms).jobs:
            yield result.name, result.slowdown
        return
    simulation, trained = run_scenario(scenario, policy, scenario.seed, latency_ms)
    for job in trained:
        yield job.spec.name, job_result(job, alone_s[job.spec.name], simulation.now_ns).slowdown


def _links(jobs: Sequence[JobPrediction]) -> Iterator[LinkPrediction]:
    by_link: dict[str, list[JobPrediction]] = {}
    for job in jobs:
        for link in job.links:
            by_link.setdefault(link, []).append(job)
    for link, them in by_link.items():
        if len(them) > 1:
            yield LinkPrediction(
                link,
                tuple(one.job.spec.name for one in them),
                sum(one.links[link] for one in them),
                fmean(one.lost for one in them),
                fmean(one.lost_expected for one in them),
            )

"""Random mixes of jobs, to judge policies on more than the scenarios they were designed on.

A mix has 2–6 jobs on random hosts. Burst lengths and the ratio of communication to computation are drawn
log-uniformly, then all compute times are scaled together until the busiest link's load, Σ_i a_il, is the load drawn
from 0.5–2.5: below 1 the jobs could fit together, at 2.5 no job can run at full speed.
"""

import math
import random
from dataclasses import replace

from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import CrossTraffic, JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import Topology, star, tree

FEWEST_JOBS, MOST_JOBS = 2, 6
LOADS = (0.5, 2.5)
BURSTS_S = (0.05, 0.8)
COMM_TO_COMPUTE = (0.3, 3.0)
MOST_BUSY = 0.85
JITTER = 0.03
LINK_GBPS = 1.0
DURATION_S = 40.0
OTHERS_EVERY_S, OTHERS_LAST_S = 2.0, (1.0, 1.0)


def random_mix(number: int, seed: int, kind: str = "star", duration_s: float = DURATION_S) -> Scenario:
    """Mix `number` of the series `seed`, on a star of 2–6 hosts or a tree of 8."""
    draws = random.Random(f"{seed}/mix/{number}")
    jobs_count = draws.randint(FEWEST_JOBS, MOST_JOBS)
    load = draws.uniform(*LOADS)
    if kind == "star":
        topology = star(draws.randint(2, 6), LINK_GBPS)
    else:
        # ToR uplinks oversubscribed 2:1, as clusters are built.
        topology = tree(2, 2, 2, (LINK_GBPS, LINK_GBPS, 2 * LINK_GBPS))
    drafts = [_draft(f"job{index}", topology, draws) for index in range(jobs_count)]
    bursts_s = [max(_busy_s(job, topology).values()) for job in drafts]
    ratios = [_log_uniform(draws, *COMM_TO_COMPUTE) for _ in drafts]
    scale = _compute_scale(drafts, topology, bursts_s, ratios, _reachable(drafts, topology, load))
    jobs = tuple(
        replace(job, compute_s=scale * burst_s / ratio)
        for job, burst_s, ratio in zip(drafts, bursts_s, ratios, strict=True)
    )
    return Scenario(f"mix {number}", seed, duration_s, SlotsSpec(), topology, jobs, ())


def beside_cross_traffic(mix: Scenario) -> Scenario:
    """The same, and from every host a flow of no job to another, as fast as the link, for half of the time."""
    draws, hosts = random.Random(f"{mix.seed}/{mix.name}/others"), mix.topology.hosts
    flows = (
        CrossTraffic(
            host, draws.choice([one for one in hosts if one != host]), OTHERS_EVERY_S, OTHERS_LAST_S, LINK_GBPS
        )
        for host in hosts
    )
    return replace(mix, cross_traffic=tuple(flows))


def peak_load(scenario: Scenario) -> float:
    """Σ_i a_il of the busiest link, with a_il from the jobs' specifications alone."""
    total: dict[str, float] = {}
    for job in scenario.jobs:
        busy_s = _busy_s(job, scenario.topology)
        alone_s = job.alone_s(max(busy_s.values()))
        for link, seconds in busy_s.items():
            total[link] = total.get(link, 0.0) + seconds / alone_s
    return max(total.values())


def _draft(name: str, topology: Topology, draws: random.Random) -> JobSpec:
    """A job without a compute time, its model sized for the drawn burst."""
    ring = draws.random() < 0.6 or len(topology.hosts) == 2
    size = draws.randint(2, min(4, len(topology.hosts)))
    members = tuple(draws.sample(topology.hosts, size))
    if ring:
        job = JobSpec(name, Pattern.ALLREDUCE, members, (), 1.0, 0.0, None, 0.0, JITTER)
    else:
        job = JobSpec(name, Pattern.PS, members[1:], members[:1], 1.0, 0.0, None, 0.0, JITTER)
    burst_s = _log_uniform(draws, *BURSTS_S)
    return replace(job, model_mb=burst_s / max(_busy_s(job, topology).values()))


def _busy_s(job: JobSpec, topology: Topology) -> dict[str, float]:
    """Seconds of each link that one iteration takes."""
    busy: dict[str, float] = {}
    for spec in flows_of(job):
        flow = spec.flow
        for link in topology.path(flow.source, flow.target, str(flow)):
            seconds = spec.size_bytes * 8 / topology.links[link].capacity_bps
            busy[link] = busy.get(link, 0.0) + seconds
    return busy


def _reachable(drafts: list[JobSpec], topology: Topology, load: float) -> float:
    """With no compute at all a job needs its bottleneck all the time, and more is not to be had: a mix of two jobs
    has a load below 2. Drawn loads are held to what leaves every job some compute time."""
    total: dict[str, float] = {}
    for job in drafts:
        busy_s = _busy_s(job, topology)
        for link, seconds in busy_s.items():
            total[link] = total.get(link, 0.0) + seconds / max(busy_s.values())
    return min(load, MOST_BUSY * max(total.values()))


def _compute_scale(
    jobs: list[JobSpec], topology: Topology, bursts_s: list[float], ratios: list[float], load: float
) -> float:
    """The factor on all compute times that gives the busiest link this load; loads fall as it grows."""
    low, high = 1e-4, 1e4
    for _ in range(60):
        middle = math.sqrt(low * high)
        total: dict[str, float] = {}
        for job, burst_s, ratio in zip(jobs, bursts_s, ratios, strict=True):
            for link, seconds in _busy_s(job, topology).items():
                total[link] = total.get(link, 0.0) + seconds / (middle * burst_s / ratio + burst_s)
        if max(total.values()) > load:
            low = middle
        else:
            high = middle
    return high


def _log_uniform(draws: random.Random, low: float, high: float) -> float:
    return math.exp(draws.uniform(math.log(low), math.log(high)))

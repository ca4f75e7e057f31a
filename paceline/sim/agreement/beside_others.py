"""What no policy can do beside cross traffic that keeps its part: the capacity bound on what is left of the links.

Over a long time others carry the part o_l of link l, and jobs no more than the rest, whoever sends when:

    Σ_i a_il/s_i  ≤  1 − o_l         s_i ≥ 1

which is the bound of jobs that need a_il/(1 − o_l) of each link (capacity_bound.py). o_l is what flows of cross traffic
were measured to send, or a part of that.
"""

from collections.abc import Mapping, Sequence

from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.model.units import BITS_PER_BYTE
from paceline.sim.capacity_bound import capacity_bound
from paceline.sim.run import link_shares

MOST = 0.999  # of a link, by others: a bound for jobs that get nothing is not asked for


def bound_beside_others(
    scenario: Scenario, alone_s: Mapping[str, float], others_bytes: Sequence[float], lasted_s: float
) -> float:
    """The least mean slowdown; `others_bytes`: of each flow of the scenario's cross traffic, in that time."""
    topology, part = scenario.topology, dict[str, float]()
    for number, (flow, sent_bytes) in enumerate(zip(scenario.cross_traffic, others_bytes, strict=True)):
        for link in topology.path(flow.source, flow.target, f"cross traffic {number}"):
            carried = BITS_PER_BYTE * sent_bytes / lasted_s / topology.links[link].capacity_bps
            part[link] = min(MOST, part.get(link, 0.0) + carried)
    needs = [link_shares(job, scenario, alone_s[job.name]) for job in scenario.jobs]
    left = [{link: need / (1.0 - part.get(link, 0.0)) for link, need in shares.items()} for shares in needs]
    return capacity_bound(left).mean

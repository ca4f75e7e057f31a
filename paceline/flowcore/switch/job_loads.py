"""The load of links by job, for people who watch: what each job's flows planned for a slot, and what they are given.

Σ_j planned_lj = b_l(t)        Σ_j share_lj ≤ u_l        over the jobs j with a claim that crosses l
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.switch.claims import Claims


class JobLoads(NamedTuple):
    urgency: dict[str, float]  # job → the highest of its flows' bids
    planned_bps: dict[tuple[str, str], float]  # (link, job)
    share_bps: dict[tuple[str, str], float]  # the same keys


def job_loads(claims: Claims, shares: Mapping[FlowId, Share], links: Collection[str], slot: int) -> JobLoads:
    found = JobLoads({}, {}, {})
    for flow, crossed, planned_bps in claims.table.entries(slot):
        job, share = flow.job, shares.get(flow)
        for link in crossed:
            if link in links:
                key = link, job
                found.urgency[job] = max(found.urgency.get(job, 0.0), claims.urgency(flow))
                found.planned_bps[key] = found.planned_bps.get(key, 0.0) + planned_bps
                found.share_bps[key] = found.share_bps.get(key, 0.0) + (share.share_bps if share else 0.0)
    return found

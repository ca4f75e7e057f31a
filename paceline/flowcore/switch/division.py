"""Dividing the links of one group of jobs: what each flow is guaranteed, and how far beyond it may borrow.

Jobs take turns: the policy's arbiter gives each contender the rate of its flows, and what is left over is borrowed up
to a ceiling that touches no other host's share (allocation/borrowing.py).

Some bursts cannot be stopped once they have begun (backend `gate`). Another one that begins beside such a burst shares
its links, and both lose what is left of the shorter one; one that waits loses what is left of the other. So with r left
of a burst that is worth u a second, j begins beside i where that costs less:

    r_j·(u_i + u_j)  <  u_j·r_i            (AdaDUAL's threshold, r_j < r_i/2, where both are worth the same)

and else takes turns with others in what such bursts leave.

On a link with cross traffic the flow whose turn it is counts for those that wait (standing.py). Where it cannot, a job
that crosses the link waits for no turn, on none of its links: what it could not use of its turn would be lost to the
jobs that wait for it. It is guaranteed what it would have of every link if all were shared equally (by the jobs'
weights), and may borrow as far as TCP lets it; the other jobs take turns in what is left.

Law: the shares on a link never exceed its capacity; `peak_ratio` is the worst of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from paceline.flowcore.allocation.arbiters import Arbiter, Contender, by_group, max_min_shares
from paceline.flowcore.allocation.borrowing import FEW_FLOWS, ceilings, ceilings_of_few
from paceline.flowcore.detect.cross_traffic import SharedLinks
from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.background import FAIR
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.switch.standing import stand, without_turns

LEAST_BPS = 1.0


class Division(NamedTuple):
    shares: dict[FlowId, Share]
    peak_ratio: float  # the largest part of a link that was given away


def contender(job: str, claims: Sequence[Claim]) -> Contender:
    weight = max(claim.weight for claim in claims)
    return Contender.of(job, [claim.bid for claim in claims], [claim.path for claim in claims], weight)


def divide(
    members: Iterable[Contender],
    claims_of: Mapping[str, Sequence[Claim]],
    capacity_bps: Mapping[str, float],
    arbiter: Arbiter,
    shared_links: SharedLinks,
    overdrawn: frozenset[str] = frozenset(),
    unmoved: frozenset[FlowId] = frozenset(),
    background: str = FAIR,
    held: frozenset[str] = frozenset(),
) -> Division:
    """Links that are not in `capacity_bps` do not count. `overdrawn` are the jobs that get what the others leave,
    `unmoved` the flows that do not count among their job's and may only borrow (both: ledger.py). `background` is the
    operator's choice (model/background.py). `held` are jobs whose time has not come: they may not even borrow."""
    members = list(members)
    shares = {claim.flow: Share(claim.flow, 0.0, 0.0) for job in held for claim in claims_of[job]}
    members = [member for member in members if member.job not in held]
    cut = any(link not in capacity_bps for member in members for link in member.flows_on)
    known = [
        replace(member, flows_on={link: n for link, n in member.flows_on.items() if link in capacity_bps})
        for member in members
    ]
    open_links = without_turns(background, shared_links, claims_of)
    free = [member for member in known if not open_links.isdisjoint(member.flows_on)]
    peak_ratio = 0.0
    if free:
        at_once, capacity_bps, peak_ratio = _at_once(free, known, claims_of, capacity_bps, unmoved)
        shares |= at_once
        known = [member for member in known if member not in free]
    batches = _in_order(known, claims_of, overdrawn)
    if cut or free or held or len(batches) > 1:  # what is left of a group may have fallen apart
        known, rates_bps = [], list[float]()
        for batch in batches:
            rates_bps += by_group(arbiter, batch, _left(known, rates_bps, capacity_bps))
            known += batch
    else:
        rates_bps = arbiter(known, capacity_bps)
    given = [
        (claim, 0.0 if claim.flow in unmoved else rate)
        for member, rate in zip(known, rates_bps, strict=True)
        for claim in claims_of[member.job]
    ]
    if given:
        ceiling_bps, ratio = _ceilings(given, capacity_bps)
        for (claim, rate), ceiling in zip(given, ceiling_bps, strict=True):
            shares[claim.flow] = Share(claim.flow, rate, ceiling)
        claims = [claim for claim, _ in given]
        for share in stand(background, shared_links, claims, shares, unmoved, capacity_bps):
            shares[share.flow] = share
        peak_ratio = max(peak_ratio, ratio)
    return Division(shares, peak_ratio)


def _at_once(
    free: Iterable[Contender],
    known: Sequence[Contender],
    claims_of: Mapping[str, Sequence[Claim]],
    capacity_bps: Mapping[str, float],
    unmoved: frozenset[FlowId],
) -> tuple[dict[FlowId, Share], dict[str, float], float]:
    """The shares of jobs that wait for no turn, what they leave of the links, and the largest part of one they take."""
    fair = max_min_shares(known, capacity_bps, by_weight=True)
    fair_bps = dict(zip([member.job for member in known], fair, strict=True))
    left_bps, shares, peak_ratio = dict(capacity_bps), {}, 0.0
    for member in free:
        for link, flows in member.flows_on.items():
            left_bps[link] = max(LEAST_BPS, left_bps[link] - flows * fair_bps[member.job])
            peak_ratio = max(peak_ratio, 1 - left_bps[link] / capacity_bps[link])
        for claim in claims_of[member.job]:
            narrowest_bps = min(capacity_bps.get(link, UNLIMITED) for link in claim.path)
            share_bps = 0.0 if claim.flow in unmoved else fair_bps[member.job]
            shares[claim.flow] = Share(claim.flow, share_bps, narrowest_bps)
    return shares, left_bps, peak_ratio


def _in_order(
    members: Sequence[Contender], claims_of: Mapping[str, Sequence[Claim]], overdrawn: frozenset[str]
) -> list[list[Contender]]:
    """Each batch takes turns in what those before it leave: bursts that cannot be stopped and those that may begin
    beside them, the others, the overdrawn."""
    last = [member for member in members if member.job in overdrawn]
    others = [member for member in members if member.job not in overdrawn]
    begun = [one for one in others if any(claim.unstoppable for claim in claims_of[one.job])]
    first = [member for member in others if begun and (member in begun or _begins_beside(member, begun))]
    return [batch for batch in (first, [one for one in others if one not in first], last) if batch]


def _begins_beside(member: Contender, begun: Iterable[Contender]) -> bool:
    own, beside = member.bid, [one.bid for one in begun if not member.flows_on.keys().isdisjoint(one.flows_on)]
    pays = (own.remaining_ns * (one.urgency + own.urgency) < own.urgency * one.remaining_ns for one in beside)
    return bool(beside) and all(pays)


def _left(
    members: Sequence[Contender], rates_bps: Sequence[float], capacity_bps: Mapping[str, float]
) -> dict[str, float]:
    """Of every link; never nothing, because a rate is a part of it."""
    left_bps = dict(capacity_bps)
    for member, rate in zip(members, rates_bps, strict=True):
        for link, flows in member.flows_on.items():
            left_bps[link] = max(LEAST_BPS, left_bps[link] - flows * rate)
    return left_bps


def _ceilings(given: Sequence[tuple[Claim, float]], capacity_bps: Mapping[str, float]) -> tuple[list[float], float]:
    """How far each flow may borrow beyond its rate, and the largest part of a link that the rates take."""
    rates = [rate for _, rate in given]
    known = [[link for link in claim.path if link in capacity_bps] for claim, _ in given]
    if len(given) <= FEW_FLOWS:
        sources, owners = [claim.flow.source for claim, _ in given], [claim.flow.job for claim, _ in given]
        few_bps, taken = ceilings_of_few(rates, known, sources, owners, capacity_bps)
        return few_bps, max((bps / capacity_bps[link] for link, bps in taken.items()), default=0.0)
    names = dict.fromkeys(link for path in known for link in path)
    links = {link: index for index, link in enumerate(names)}
    paths = [[links[link] for link in path] for path in known]
    longest, nowhere = max(map(len, paths)), len(links)  # paths are filled up with a link that is never full
    hosts: dict[str, int] = {}
    jobs: dict[str, int] = {}
    links_bps = np.array([*(capacity_bps[link] for link in links), UNLIMITED])
    ceiling_bps, taken_bps = ceilings(
        np.array(rates),
        np.array([path + [nowhere] * (longest - len(path)) for path in paths]),
        np.array([hosts.setdefault(claim.flow.source, len(hosts)) for claim, _ in given]),
        np.array([jobs.setdefault(claim.flow.job, len(jobs)) for claim, _ in given]),
        links_bps,
    )
    return ceiling_bps.tolist(), float(np.max(taken_bps / links_bps))

"""For how many flows the one whose turn it is counts, on links with cross traffic.

Beside k flows of jobs TCP leaves a flow of cross traffic one part in k + 1. Where jobs take turns, fewer than k send;
so that together they get what TCP would give all k, each sender counts for itself and for its part of those that wait:

    stands_for  =  1 + PLACE · waiting(l) · share / Σ shares on l        the most over its links l with cross traffic

PLACE is less than one, because jobs that take turns are through sooner, and back sooner: they want the link more often
than under TCP. The most over its links: under TCP a flow that meets k − 1 others on one link is held to a k-th
everywhere, for k times as long. So on its other links, too, k times the rate for a k-th of the time is what TCP would
give it, and cross traffic there loses nothing.

A waiting flow of the same host may not borrow what cross traffic takes from the sender's guarantee: somebody stands for
it already. Elsewhere it has no ceiling to borrow under, since the sender was given the link.
"""

from collections.abc import Iterable, Mapping, Sequence

from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.background import FIRST, MOST_STOOD_FOR, TRAINING_FIRST, YIELD
from paceline.flowcore.model.patterns import FlowId

PLACE = 0.75  # of each that waits


def without_turns(
    background: str, shared_links: frozenset[str], claims_of: Mapping[str, Sequence[Claim]]
) -> frozenset[str]:
    """Of these links, those on which nobody can stand for another: jobs that cross them wait for no turn."""
    if background == YIELD or not shared_links:
        return shared_links
    flows = [claim for claims in claims_of.values() for claim in claims if not claim.weighable]
    return shared_links.intersection(link for claim in flows for link in claim.path)


def stand(
    background: str,
    shared_links: frozenset[str],
    claims: Sequence[Claim],
    shares: Mapping[FlowId, Share],
    unmoved: frozenset[FlowId],
) -> Iterable[Share]:
    """The shares that change: of flows that take turns, on links with cross traffic where others can be stood for."""
    if background == TRAINING_FIRST:
        for claim in claims:
            if claim.weighable and (share := shares[claim.flow]).share_bps > 0.0:
                yield share._replace(stands_for=FIRST)
        return
    waiting: dict[str, int] = {}
    given_bps: dict[str, float] = {}
    there = [(claim, shared_links.intersection(claim.path)) for claim in claims] if shared_links else []
    for claim, links in there:
        share_bps = shares[claim.flow].share_bps
        for link in links:
            given_bps[link] = given_bps.get(link, 0.0) + share_bps
            waiting[link] = waiting.get(link, 0) + (share_bps <= 0.0 and claim.flow not in unmoved)
    for claim, links in there:
        share = shares[claim.flow]
        if share.share_bps > 0.0 and links:
            more = PLACE * max(waiting[link] * share.share_bps / given_bps[link] for link in links)
            if more > 0.0:
                yield share._replace(stands_for=min(1.0 + more, MOST_STOOD_FOR))
        elif any(given_bps[link] > 0.0 for link in links):
            yield share._replace(ceiling_bps=0.0)

"""For how many flows the one whose turn it is counts, on links with cross traffic.

Beside k flows of jobs TCP leaves a flow of cross traffic one part in k + 1. Where jobs take turns, fewer than k send;
so that together they get what TCP would give all k, each sender counts for itself and for its part of those that wait:

    stands_for  =  1 + PLACE · waiting(l) · share / Σ shares on l        the most over its links l with cross traffic

PLACE is less than one, because jobs that take turns are through sooner, and back sooner: they want the link more often
than under TCP. The most over its links: under TCP a flow that meets k − 1 others on one link is held to a k-th
everywhere, for k times as long. So on its other links, too, k times the rate for a k-th of the time is what TCP would
give it, and cross traffic there loses nothing.

A sender that pauses, because each piece waits for the other side's, counts for nobody meanwhile. So those that wait may
borrow, but no more than senders leave of what TCP would give all k: in turns as well, jobs together stay below

    k / (k + 1)        of a link, and below MOST: with more it would look as if there were no cross traffic

Elsewhere than on the sender's host they have no ceiling to borrow under, since the sender was given the link.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paceline.flowcore.detect.cross_traffic import CARRIED_WEIGHED, SharedLinks
from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.background import FIRST, MOST_STOOD_FOR, TRAINING_FIRST, YIELD
from paceline.flowcore.model.patterns import FlowId

PLACE = 0.75  # of each that waits
MOST = CARRIED_WEIGHED


def without_turns(
    background: str, shared_links: SharedLinks, claims_of: Mapping[str, Sequence[Claim]]
) -> frozenset[str]:
    """Of the links with cross traffic, those on which nobody can stand for another: jobs that cross them wait for no
    turn."""
    if background == YIELD or not shared_links.now:
        return shared_links.now
    flows = [claim for claims in claims_of.values() for claim in claims if not claim.weighable]
    return shared_links.now.intersection(link for claim in flows for link in claim.path)


@dataclass(slots=True)
class _Link:
    given_bps: float = 0.0
    flows: int = 0
    waiting: int = 0

    def left(self, senders_part: float) -> float:
        """For each that waits, of what TCP would give all of them, in parts of the link."""
        return max(0.0, min(MOST, self.flows / (self.flows + 1)) - senders_part) / max(1, self.waiting)


def stand(
    background: str,
    shared_links: SharedLinks,
    claims: Sequence[Claim],
    shares: Mapping[FlowId, Share],
    unmoved: frozenset[FlowId],
    capacity_bps: Mapping[str, float],
) -> Iterable[Share]:
    """The shares that change: of flows that take turns, on links with cross traffic where others can be stood for."""
    if background == TRAINING_FIRST:
        for claim in claims:
            if claim.weighable and (share := shares[claim.flow]).share_bps > 0.0:
                yield share._replace(stands_for=FIRST)
        return
    recent = {} if background == YIELD else shared_links.recent
    there = [(claim, recent.keys() & set(claim.path)) for claim in claims] if recent else []
    links = {name: _Link() for _, names in there for name in names}
    for claim, names in there:
        share_bps = shares[claim.flow].share_bps
        for link in map(links.__getitem__, names):
            link.given_bps += share_bps
            link.flows += claim.flow not in unmoved
            link.waiting += share_bps <= 0.0 and claim.flow not in unmoved
    for claim, names in there:
        share = shares[claim.flow]
        if share.share_bps > 0.0:
            parts = [links[name].waiting * share.share_bps / links[name].given_bps for name in names]
            if claim.weighable and any(parts):
                yield share._replace(stands_for=min(1.0 + PLACE * max(parts), MOST_STOOD_FOR))
            continue
        held = [name for name in names if name in shared_links.now and links[name].given_bps > 0.0]
        if held:
            left_bps = min(links[name].left(recent[name]) * capacity_bps[name] for name in held)
            ceiling_bps = 0.0 if claim.flow in unmoved else min(share.ceiling_bps, left_bps)
            yield share._replace(ceiling_bps=ceiling_bps)

"""Where jobs meet: the claims a switch arbitrates, and who arbitrates those it cannot.

Jobs that share a link, directly or through others, form a group, and a group must be divided in one place: two
switches that each favour another job of it would hold half of each job's path and let neither send. The place is
the lowest switch whose subtree contains every link of the group. So a switch settles the groups that lie within its
scope and escalates the others, whole, to its parent, which does the same with what its children send up. The top
has everything in scope. A rack whose jobs stay inside it never needs more than its ToR.

Flows from elsewhere that end below a switch pass its links without being its to divide. It knows them from the load
table and lets them count when groups are formed: a job that meets one of them has a group that reaches beyond, and so
has the job whose flows they are: divided here, and above because of them, it would hold two shares.

Where a node has several parents (a ToR below the spines) the first one is the meeting place: this is about who
decides, not about where packets go.

A switch that has lost its parent settles alone what it would have escalated, over the links it knows, its own uplinks
among them: on those shares stay within capacity, beyond them TCP has to make do. When the parent is back it is asked
anew about everything: it may think that nothing has changed.

A job that crosses a contested link waits for no other job, on none of its links: what it could not use of its
turn would be lost to those who wait for it. It is guaranteed what it would have of every link if all were shared
equally, and may borrow as far as TCP lets it; the others take turns in what is left.

Laws: the shares on a link never exceed its capacity (`peak_ratio` keeps the worst); a claim that is not renewed
within a lease is dropped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from paceline.flowcore.allocation.arbiters import Arbiter, Contender, groups, max_min_shares
from paceline.flowcore.allocation.borrowing import ceilings
from paceline.flowcore.detect.cross_traffic import CrossTrafficDetector
from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.switch.load_table import LEASE_SLOTS


@dataclass(frozen=True, slots=True)
class Reallocation:
    """What came of settling: whose share or ceiling changed, and what concerns the parent."""

    changed: frozenset[FlowId]
    escalate: tuple[Claim, ...] = ()  # every claim of every group that reaches beyond the scope
    recall: tuple[FlowId, ...] = ()  # escalated before, and not any more or to be decided anew


class Arbitration:
    def __init__(
        self,
        scope_bps: Mapping[str, float],
        arbiter: Arbiter,
        table_bps: Mapping[str, float] | None = None,
        cross_traffic: CrossTrafficDetector | None = None,
    ) -> None:
        """`table_bps`: the links whose table is kept here, which reach one tier beyond the scope. `strangers` knows
        where others send; None: nobody looks."""
        self.shares: dict[FlowId, Share] = {}
        self.shared_links: frozenset[str] = frozenset()  # links on which strangers send
        self.peak_ratio = 0.0
        self._scope_bps = scope_bps
        self._known_bps = {**scope_bps, **(table_bps or {})}
        self._arbiter = arbiter
        self._cross_traffic = cross_traffic
        self._claims: dict[FlowId, Claim] = {}
        self._heard: dict[FlowId, int] = {}
        self._escalated: set[FlowId] = set()
        self._left: set[FlowId] = set()  # since the last settlement; some may have come back
        self._was_alone = False
        self._passing: dict[FlowId, tuple[str, ...]] = {}  # paths of flows that contend elsewhere

    @property
    def empty(self) -> bool:
        return not self._claims

    @property
    def escalated(self) -> tuple[FlowId, ...]:
        """What the parent was told of, and not yet that it is over."""
        return tuple(sorted(self._escalated))

    def passes(self, flow: FlowId, path: tuple[str, ...]) -> bool:
        """A flow from elsewhere crosses a link here; True if that is news to the groups."""
        if flow in self._passing or all(link in self._scope_bps for link in path):
            return False  # within the scope it will come up as a contender by itself
        self._passing[flow] = path
        return True

    def passed(self, flow: FlowId) -> bool:
        return self._passing.pop(flow, None) is not None

    def put(self, claims: Iterable[Claim], slot: int, now_ns: int) -> bool:
        """Enter or renew; True if there is a new contender, or if strangers came to a link or left it."""
        new = False
        for claim in claims:
            new |= claim.flow not in self._claims
            if self._cross_traffic is not None:
                new |= self._cross_traffic.heard(claim, now_ns)
            self._claims[claim.flow] = claim
            self._heard[claim.flow] = slot
        return new

    def remove(self, flows: Iterable[FlowId]) -> bool:
        """True if one of them was here."""
        gone = False
        for flow in flows:
            gone |= self._claims.pop(flow, None) is not None
            self._heard.pop(flow, None)
            if self._cross_traffic is not None:
                self._cross_traffic.forget(flow)
            self.shares.pop(flow, None)
            if flow in self._escalated:
                self._left.add(flow)
        return gone

    def expire(self, slot: int) -> list[FlowId]:
        """Drop the claims whose lease has run out, and say which."""
        silent = [flow for flow, heard in self._heard.items() if slot - heard > LEASE_SLOTS]
        self.remove(silent)
        return silent

    def reallocate(self, now_ns: int, *, alone: bool = False) -> Reallocation:
        """Divide the links anew among the groups in scope, `alone` also among the others; name the others."""
        if self._cross_traffic is not None:
            self.shared_links = self._cross_traffic.shared_links(now_ns)
        flows_of: dict[str, list[FlowId]] = {}
        for flow in self._claims:
            flows_of.setdefault(flow.job, []).append(flow)
        own = {job: self._contender(job, flows) for job, flows in sorted(flows_of.items())}
        shares: dict[FlowId, Share] = {}
        escalate: dict[FlowId, Claim] = {}
        for group in self._groups(own):
            members = [own[contender.job] for contender in group if contender.job in own]
            if all(link in self._scope_bps for contender in group for link in contender.flows_on):
                shares |= self._divide(members, flows_of, self._scope_bps)
            else:
                escalate |= {flow: self._claims[flow] for member in members for flow in flows_of[member.job]}
                if alone:
                    shares |= self._divide(members, flows_of, self._known_bps)
        above = set(escalate)
        if not alone:  # until the parent has spoken, what held before goes on
            shares |= {flow: self.shares[flow] for flow in above if flow in self.shares}
        changed = frozenset(flow for flow in shares if shares[flow] != self.shares.get(flow))
        anew = self._escalated if self._was_alone and not alone else self._left
        recall = tuple(sorted(self._escalated & (anew | (self._escalated - above))))
        self.shares, self._escalated, self._left, self._was_alone = shares, above, set(), alone
        return Reallocation(changed, tuple(escalate.values()), recall)

    def _groups(self, own: Mapping[str, Contender]) -> Iterable[list[Contender]]:
        """Of jobs that meet, here or where flows of theirs pass."""
        links = {job: dict.fromkeys(contender.flows_on, 1) for job, contender in own.items()}
        for flow, path in self._passing.items():
            if flow not in self._claims:
                links.setdefault(flow.job, {}).update(dict.fromkeys(path, 1))
        contenders = [Contender(job, Bid(0.0), on) for job, on in links.items()]
        return ([contenders[index] for index in group] for group in groups(contenders))

    def decided_above(self, shares: Iterable[Share]) -> frozenset[FlowId]:
        """The parent's decision; returns the flows it changes something for."""
        changed = set()
        for share in shares:
            if share.flow in self._escalated and self.shares.get(share.flow) != share:
                self.shares[share.flow] = share
                changed.add(share.flow)
        return frozenset(changed)

    def _contender(self, job: str, flows: Iterable[FlowId]) -> Contender:
        flows_on: dict[str, int] = {}
        for flow in flows:
            for link in self._claims[flow].path:
                flows_on[link] = flows_on.get(link, 0) + 1
        # Hosts of a job agree but for what each noticed last: the most urgent of them speaks for the job.
        return Contender(job, max(self._claims[flow].bid for flow in flows), flows_on)

    def _divide(
        self, members: list[Contender], flows_of: Mapping[str, list[FlowId]], capacity_bps: Mapping[str, float]
    ) -> dict[FlowId, Share]:
        known = [
            replace(member, flows_on={link: n for link, n in member.flows_on.items() if link in capacity_bps})
            for member in members
        ]
        free = [member for member in known if not self.shared_links.isdisjoint(member.flows_on)]
        if not free:
            return self._in_turns(known, flows_of, capacity_bps)
        fair_bps = {member.job: rate for member, rate in zip(known, max_min_shares(known, capacity_bps), strict=True)}
        left_bps = dict(capacity_bps)
        shares: dict[FlowId, Share] = {}
        for member in free:
            for link, flows in member.flows_on.items():
                left_bps[link] -= flows * fair_bps[member.job]
                self.peak_ratio = max(self.peak_ratio, 1 - left_bps[link] / capacity_bps[link])
            for flow in flows_of[member.job]:
                narrowest_bps = min(capacity_bps.get(link, UNLIMITED) for link in self._claims[flow].path)
                shares[flow] = Share(flow, fair_bps[member.job], narrowest_bps)
        return shares | self._in_turns([member for member in known if member not in free], flows_of, left_bps)

    def _in_turns(
        self, members: list[Contender], flows_of: Mapping[str, list[FlowId]], capacity_bps: Mapping[str, float]
    ) -> dict[FlowId, Share]:
        rates = self._arbiter(members, capacity_bps)
        rate_of = {flow: rate for member, rate in zip(members, rates, strict=True) for flow in flows_of[member.job]}
        if not rate_of:
            return {}
        names = dict.fromkeys(link for member in members for link in member.flows_on)
        links = {link: index for index, link in enumerate(names)}
        hosts: dict[str, int] = {}
        jobs: dict[str, int] = {}
        paths = [[links[link] for link in self._claims[flow].path if link in links] for flow in rate_of]
        longest = max(map(len, paths))
        beyond = len(links)  # the link that no path really has
        rates_of_links = np.array([*(capacity_bps[link] for link in links), UNLIMITED])
        ceiling_bps, taken_bps = ceilings(
            np.array(list(rate_of.values())),
            np.array([path + [beyond] * (longest - len(path)) for path in paths]),
            np.array([hosts.setdefault(flow.source, len(hosts)) for flow in rate_of]),
            np.array([jobs.setdefault(flow.job, len(jobs)) for flow in rate_of]),
            rates_of_links,
        )
        self.peak_ratio = max(self.peak_ratio, float(np.max(taken_bps / rates_of_links)))
        return {
            flow: Share(flow, rate, ceiling)
            for (flow, rate), ceiling in zip(rate_of.items(), ceiling_bps.tolist(), strict=True)
        }

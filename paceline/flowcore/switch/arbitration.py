"""Where jobs meet: the claims a switch arbitrates, and the switch that arbitrates those it cannot.

Jobs that share a link, directly or through further jobs, form a group, and a group must be divided in one place: two
switches that each favour another job of it would hold half of each job's path and let neither send. The place is
the lowest switch whose subtree contains every link of the group. So a switch divides the groups that lie within its
scope and escalates the rest, whole, to its parent, which does the same with what its children send up. The top
has everything in scope. A rack whose jobs stay inside it never needs more than its ToR. Per group, one of three:

    within the scope                             divided here
    reaches beyond it, the parent answers        escalated; the old shares hold until the parent has decided
    reaches beyond it, the parent is lost        escalated, and divided here over the links this switch knows, its own
                                                 uplinks among them: beyond those TCP has to make do

Flows from elsewhere that end below a switch pass its links, but another switch divides those flows' group. The switch
knows them from the load table and lets them count when groups are formed: a job that meets such a flow has a group
that reaches beyond, and so has the flow's own job, which would hold two shares if it were divided both here and above.

Where a node has several parents (a ToR below the spines) the first one is the meeting place: this is about which switch
decides, not about where packets go.

Law: a claim that is not renewed is dropped as its entry in the load table is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paceline.flowcore.allocation.arbiters import Arbiter, Contender, groups
from paceline.flowcore.allocation.shifts.timetable import Timetable
from paceline.flowcore.detect.cross_traffic import CrossTrafficDetector, SharedLinks
from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.background import FAIR
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.switch.division import contender, divide
from paceline.flowcore.switch.ledger import Ledger
from paceline.flowcore.switch.load_table import ENTRY_SLOTS


@dataclass(frozen=True, slots=True)
class Reallocation:
    """What came of dividing the links anew: the flows whose share or ceiling changed, and what concerns the parent."""

    changed: frozenset[FlowId]
    escalate: tuple[Claim, ...] = ()  # every claim of every group that reaches beyond the scope
    recall: tuple[FlowId, ...] = ()  # escalated before, and not any more or to be decided anew


class Arbitration:
    def __init__(
        self,
        scope_bps: Mapping[str, float],
        arbiter: Arbiter,
        table_bps: Mapping[str, float] | None = None,
        detector: CrossTrafficDetector | None = None,
        ledger: Ledger | None = None,
        background: str = FAIR,
        timetable: Timetable | None = None,
    ) -> None:
        """`table_bps`: the links whose table is kept here, which reach one tier beyond the scope. Without a detector
        no link counts as shared with cross traffic, without a ledger no job as overdrawn, without a timetable no job is
        held to times. `background`: see divide."""
        self.shares: dict[FlowId, Share] = {}
        self.child_of: dict[FlowId, str] = {}  # the child that sent a flow's claim up
        self.shared_links = SharedLinks()
        self.passing: dict[FlowId, tuple[str, ...]] = {}  # paths of flows that contend elsewhere
        self.peak_ratio = 0.0
        self._scope_bps = scope_bps
        self._known_bps = {**scope_bps, **(table_bps or {})}
        self._arbiter = arbiter
        self._detector = detector
        self._ledger = ledger
        self._background = background
        self._timetable = timetable
        self._claims: dict[FlowId, Claim] = {}
        self._heard_slot: dict[FlowId, int] = {}
        self._escalated: set[FlowId] = set()
        self._left: set[FlowId] = set()  # escalated flows that left since the last reallocation; some may be back
        self._was_alone = False

    @property
    def empty(self) -> bool:
        return not self._claims

    @property
    def size(self) -> int:
        """How many claims there are to divide links among."""
        return len(self._claims)

    @property
    def escalated(self) -> tuple[FlowId, ...]:
        """The flows that the parent was told of and still counts."""
        return tuple(sorted(self._escalated))

    @property
    def next_ns(self) -> int | None:
        """When to divide anew, although nothing has changed: the time of a job that is held has come."""
        return None if self._timetable is None else self._timetable.next_ns

    # ---- Claims ----

    def put(self, claims: Iterable[Claim], slot: int, now_ns: int, child: str | None = None) -> bool:
        """Enter or renew; True if there is a new contender, or if cross traffic came to a link or left it."""
        new = False
        for claim in claims:
            new |= claim.flow not in self._claims
            if self._detector is not None:
                new |= self._detector.heard(claim, now_ns)
            if self._ledger is not None:
                self._ledger.heard(claim, now_ns)
            self._claims[claim.flow] = claim
            self._heard_slot[claim.flow] = slot
            if child is not None:
                self.child_of[claim.flow] = child
        return new

    def remove(self, flows: Iterable[FlowId]) -> bool:
        """True if one of them was here."""
        gone = False
        for flow in flows:
            gone |= self._claims.pop(flow, None) is not None
            self._heard_slot.pop(flow, None)
            self.child_of.pop(flow, None)
            self.shares.pop(flow, None)
            if self._detector is not None:
                self._detector.forget(flow)
            if self._ledger is not None:
                self._ledger.forget(flow)
            if flow in self._escalated:
                self._left.add(flow)
        return gone

    def forget(self, jobs: set[str]) -> None:
        """What was seen of jobs that claim nothing any more, because they are left alone: no burst of theirs ended."""
        if self._ledger is not None:
            for job in jobs - {flow.job for flow in self._claims} if jobs else ():
                self._ledger.forget_job(job)

    def remove_children(self, children: set[str]) -> bool:
        """What these children send up next is new again: a child that has lost its shares would wait for ever for a
        change of them."""
        return self.remove([flow for flow, child in self.child_of.items() if child in children])

    def expire(self, slot: int) -> bool:
        """Drop the claims that were not renewed; True if there were any."""
        return self.remove([flow for flow, heard in self._heard_slot.items() if slot - heard > ENTRY_SLOTS])

    def passes(self, flow: FlowId, path: tuple[str, ...]) -> bool:
        """A flow from elsewhere crosses a link here; True if that is news to the groups."""
        if flow in self.passing or all(link in self._scope_bps for link in path):
            return False  # within the scope it will come up as a contender by itself
        self.passing[flow] = path
        return True

    def passed(self, flow: FlowId) -> bool:
        return self.passing.pop(flow, None) is not None

    # ---- Shares ----

    def reallocate(self, now_ns: int, *, alone: bool = False) -> Reallocation:
        """Divide the links anew, `alone` without a parent to turn to."""
        if self._detector is not None:
            self.shared_links = self._detector.found(now_ns)
        claims_of: dict[str, list[Claim]] = {}
        for claim in self._claims.values():
            claims_of.setdefault(claim.flow.job, []).append(claim)
        unmoved = self._unmoved()
        still = frozenset(job for job, claims in claims_of.items() if all(one.flow in unmoved for one in claims))
        unmoved -= {claim.flow for job in still for claim in claims_of[job]}
        contenders = {
            job: contender(job, [self._aged(claim, now_ns) for claim in claims if claim.flow not in unmoved])
            for job, claims in sorted(claims_of.items())
        }
        overdrawn = frozenset[str]()
        if self._ledger is not None:
            overdrawn = self._ledger.overdrawn(contenders, now_ns, still)
            contenders = {job: self._ledger.believed(one) for job, one in contenders.items()}
        shares: dict[FlowId, Share] = {}
        escalate: list[Claim] = []
        for group in self._groups(contenders, now_ns):
            members = [contenders[job] for job in group.jobs if job in contenders]
            capacity_bps = self._scope_bps
            if not group.within_scope:
                beyond = [claim for member in members for claim in claims_of[member.job]]
                escalate += beyond
                if not alone:
                    shares |= {claim.flow: self.shares[claim.flow] for claim in beyond if claim.flow in self.shares}
                    continue
                capacity_bps = self._known_bps
            held = frozenset[str]()
            if self._timetable is not None and group.within_scope:  # else nobody knows when the others are due
                held = self._timetable.held(members, now_ns)
            division = divide(
                members,
                claims_of,
                capacity_bps,
                self._arbiter,
                self.shared_links,
                overdrawn,
                unmoved,
                self._background,
                held,
            )
            if self._ledger is not None and group.within_scope:
                shares_bps = {
                    one.job: max(division.shares[claim.flow].share_bps for claim in claims_of[one.job])
                    for one in members
                }
                self._ledger.enter(members, shares_bps, capacity_bps)
            self.peak_ratio = max(self.peak_ratio, division.peak_ratio)
            shares |= division.shares
        changed = frozenset(flow for flow in shares if shares[flow] != self.shares.get(flow))
        now_escalated = {claim.flow for claim in escalate}
        recall = self._recall(now_escalated, parent_is_back=self._was_alone and not alone)
        self.shares, self._escalated, self._left, self._was_alone = shares, now_escalated, set(), alone
        return Reallocation(changed, tuple(escalate), tuple(sorted(recall)))

    def _aged(self, claim: Claim, now_ns: int) -> Claim:
        return claim if self._ledger is None else claim._replace(bid=self._ledger.bid(claim, now_ns))

    def _unmoved(self) -> frozenset[FlowId]:
        ledger = self._ledger
        return frozenset() if ledger is None else frozenset(flow for flow in self._claims if ledger.unmoved(flow))

    def _recall(self, now_escalated: set[FlowId], *, parent_is_back: bool) -> set[FlowId]:
        """The flows the parent should forget, before it hears of some of them anew."""
        if parent_is_back:
            return set(self._escalated)  # it may think that nothing has changed: it decides about all of them anew
        left = self._left & self._escalated  # also a flow that has come back: to the parent its claim is a new one
        divided_here_again = self._escalated - now_escalated
        return left | divided_here_again

    def decided_above(self, shares: Iterable[Share]) -> frozenset[FlowId]:
        """The parent's decision; returns the flows it changes something for."""
        changed = set()
        for share in shares:
            if share.flow in self._escalated and self.shares.get(share.flow) != share:
                self.shares[share.flow] = share
                changed.add(share.flow)
        return frozenset(changed)

    def _groups(self, contenders: Mapping[str, Contender], now_ns: int) -> Iterable["_Group"]:
        """The groups of jobs that meet, here or on the paths of passing flows. Where jobs have times they meet those
        that compute, too: whoever decides about one must know when the others are due."""
        links_of = {job: dict.fromkeys(member.flows_on, 1) for job, member in contenders.items()}
        for flow, path in self.passing.items():
            if flow not in self._claims:
                links_of.setdefault(flow.job, {}).update(dict.fromkeys(path, 1))
        if self._timetable is not None:
            self._timetable.hear(links_of, now_ns)
            for job, links in self._timetable.links_of.items():
                links_of.setdefault(job, {}).update(dict.fromkeys(links, 1))
        meeting = [Contender(job, Bid(0.0), links) for job, links in links_of.items()]
        for indices in groups(meeting):
            members = [meeting[index] for index in indices]
            within = all(link in self._scope_bps for member in members for link in member.flows_on)
            yield _Group([member.job for member in members], within)


@dataclass(frozen=True, slots=True)
class _Group:
    jobs: list[str]
    within_scope: bool

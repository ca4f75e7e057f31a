"""SwitchAgent: one emulated switch as a state machine, made of four.

    Claims           the load table of its links, volumes, demand: what each flow is told of them
    Federation       what the other switches on a path say, merged with its own
    PendingReports   which reports wait for which word
    Arbitration      which flows may send now; only where the policy has an arbiter

Its links are its outgoing ones, and the uplinks of the hosts plugged into it: a ToR knows its ports' speed, and a NIC
is as shared as any link. A host gets one answer to a report, when every other switch on its flows' paths has answered.

State is soft: everything here came in a report and disappears when the reports stop. A restarted switch is rebuilt
by the next report of each host. So is a switch whose clock is set back: what it holds is dated in a time to come, so
that no entry would end and no plan meet the slots it is for.
"""

from collections.abc import Collection, Iterable, Sequence

from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.events import Effect, PeersFound, PeersLost, Send, SwitchEvent, Tick
from paceline.flowcore.messages.reports import NO_ANSWER, Claim, Feedback, Grant, Report
from paceline.flowcore.model.background import FAIR, TRAINING_FIRST
from paceline.flowcore.model.domain import Domain
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.weights import MOST
from paceline.flowcore.switch.claims import Claims
from paceline.flowcore.switch.federation import NOTHING, Federation
from paceline.flowcore.switch.gathering import Gathering
from paceline.flowcore.switch.job_loads import JobLoads, job_loads
from paceline.flowcore.switch.load_table import LoadTable
from paceline.flowcore.switch.pending_reports import OWN_DECISION, PARENT_DECISION, PendingReport, PendingReports
from paceline.flowcore.switch.switch_policy import SwitchPolicy, new_arbitration

# Bids grow while jobs wait. Reallocating twice a slot for them costs little and was measured to be as good as always.
REALLOCATIONS_PER_SLOT = 2

# A parent that was sent claims and has decided nothing for so many slots has gone, although the connection seems to
# stand: it answers within half of one.
SILENT_SLOTS = 3

# With nothing here but what is remembered of jobs, the only thing to come is that one is forgotten: so seldom a tick.
REST_SLOTS = 16


class SwitchAgent:
    def __init__(
        self,
        name: str,
        domain: Domain,
        clock: SlotClock,
        policy: SwitchPolicy,
        gathering: Gathering | None = None,
        max_weight: float = MOST,
        background: str = FAIR,
    ) -> None:
        """`max_weight`: no claim counts more, whatever its host says. `background`: model/background.py."""
        self.name = name
        self._domain = domain
        self._clock = clock
        self._policy = policy
        self._max_weight, self._background = max_weight, background
        # A ToR's own hosts bring contenders, as a host does to its NIC's agent. A ToR that forwards a claim for the
        # table contends elsewhere.
        self._contending_peers = domain.hosts or frozenset((name,))
        self._federation = Federation(name, domain.keeper)
        self._gathering = gathering or Gathering(clock.length_ns)
        self._slot: int | None = None  # of the last event
        self._now_ns = 0
        self._begin()

    def _begin(self) -> None:
        """With nothing known of any flow."""
        # Training that comes first does so beside cross traffic, too, which claims tell of.
        tells_uncontended = self._policy.leaves_uncontended and self._background != TRAINING_FIRST
        self._claims = Claims(self._domain, self._clock.horizon, tells_uncontended=tells_uncontended)
        self._federation.forget_all()
        self._pending = PendingReports()
        self.arbitration = new_arbitration(self._policy, self._domain, self._clock.length_ns, self._background)
        self._reallocate_ns = self._clock.epoch_ns
        self._news_due_ns: int | None = None  # when to reallocate for flows that came or left
        self._bids_changed = False  # since the last reallocation
        self._undecided_ns = 0  # so long the parent has claims of ours, and has said nothing about shares
        self._ticked_ns = self._now_ns
        self._unanswered: set[str] = set()  # children that have sent claims up since they last heard of us
        self._idle = True  # nothing is here
        self._rests = False  # nothing but memories

    @property
    def table(self) -> LoadTable:
        return self._claims.table

    @property
    def silent(self) -> set[str]:
        """Other switches that no report waits for."""
        return self._federation.silent

    @property
    def missed(self) -> set[str]:
        """Of these, the switches on paths of flows that are here now, and a parent that should decide."""
        return self._federation.missed | (self.silent & {self._domain.parent})

    def remembers(self, job: str) -> bool:
        """Whether flows of this job have left something here."""
        return self._claims.remembers(job)

    def remembered_flows(self) -> tuple[FlowId, ...]:
        """Flows that reports named lately, of jobs that are still remembered."""
        return self._claims.remembered_flows()

    def job_loads(self, links: Collection[str], slot: int) -> JobLoads:
        """What each job has of these links in the slot."""
        shares = {} if self.arbitration is None else self.arbitration.shares
        return job_loads(self._claims, shares, links, slot)

    # ---- The two methods of a state machine ----

    def next_deadline(self) -> int | None:
        if self._idle:
            return None
        held_ns = None if self.arbitration is None else self.arbitration.next_ns
        return min(ns for ns in (self._reallocate_ns, self._news_due_ns, held_ns) if ns is not None)

    def handle(self, event: SwitchEvent, now_ns: int) -> list[Effect]:
        slot, before = self._clock.index(now_ns), self._slot
        self._slot, self._now_ns = slot, now_ns
        if before is not None and slot < before:
            return self._begin_anew() + self.handle(event, now_ns)
        if self._idle or self._rests:
            self._idle = self._rests = False
            self._arm(now_ns)
        if isinstance(event, Report | Feedback | EscalatedClaims | ShareUpdate):
            self.silent.discard(event.sender)
            if event.sender == self._domain.parent and not isinstance(event, Feedback):
                self._undecided_ns = 0  # a table that answers decides nothing
        match event:
            case Report():
                return self._report(event, slot)
            case Feedback():
                return self._feedback(event, slot)
            case EscalatedClaims():
                if event.claims:
                    self._unanswered.add(event.sender)
                news = self._contend(event.claims, event.withdrawn, slot, child=event.sender)
                return self._reallocate_for_news(slot) if news else []
            case ShareUpdate():
                return self._share_update(event, slot)
            case PeersLost():
                return self._lose(set(event.peers), slot)
            case PeersFound():
                return self._find(set(event.peers), slot)
            case Tick():
                return self._tick(slot)

    def _begin_anew(self) -> list[Effect]:
        """Time has turned back. The parent, for which it has not, must decide again what is forgotten here."""
        escalated = () if self.arbitration is None else self.arbitration.escalated
        self._begin()
        if self._domain.parent is None or not escalated:
            return []
        return [Send(self._domain.parent, EscalatedClaims(self.name, (), escalated))]

    def _tick(self, slot: int) -> list[Effect]:
        self._arm(self._now_ns)
        overdue, late = self._pending.overdue(slot)  # before anything is forgotten: after a stall it may be their flows
        effects = self._complete(overdue, slot)
        if late:
            effects += self._lose(late, slot)
        for flow in self._claims.expire(slot):
            self._federation.forget(flow)
            self._pending.stop(flow)
            if self.arbitration is not None:
                self._bids_changed |= self.arbitration.passed(flow)
        if self.arbitration is not None:
            self._bids_changed |= self.arbitration.expire(slot)
            held_ns = self.arbitration.next_ns
            if self._bids_changed or (held_ns is not None and held_ns <= self._now_ns):
                effects += self._reallocate(slot)
            effects += self._miss_parent(slot) + self._nothing_new()
        quiet = self._claims.quiet and (self.arbitration is None or self.arbitration.empty)
        self._idle = quiet and self._claims.empty
        self._rests = quiet and not (self._pending or self._unanswered or self._news_due_ns)
        if self._rests:
            self._reallocate_ns = self._clock.start_ns(slot + REST_SLOTS)
        return effects

    def _arm(self, now_ns: int) -> None:
        step_ns = max(1, self._clock.length_ns // REALLOCATIONS_PER_SLOT)
        start_ns = self._clock.start_ns(self._clock.index(now_ns))
        self._reallocate_ns = start_ns + ((now_ns - start_ns) // step_ns + 1) * step_ns

    # ---- Reports and answers ----

    def _report(self, report: Report, slot: int) -> list[Effect]:
        pending = PendingReport(report.sender, report.number, slot, self._federation.next_number(self._now_ns))
        own_host, forwarded = report.sender in self._domain.hosts, NOTHING
        if own_host:  # only a host's own ToR forwards
            forwarded = self._federation.forward(report, pending.forwarded, slot, self._claims.path_of)
        effects = list(forwarded.sends)
        for withdrawal in report.withdrawn:
            self._claims.withdraw(withdrawal)
            effects += self._complete(self._pending.withdraw(withdrawal.flow), slot)
        pending.flows = [claim.flow for claim in report.claims]
        # What this report names is answered with it: only the rest of an older one is still to be answered.
        effects += self._complete(self._pending.replace(pending, pending.flows), slot)
        self._claims.take_others(report.sender, report.others_bps, slot)
        self._claims.take(report, slot)
        effects += self._say_contended(slot)
        for flow, switches in forwarded.asked.items():
            pending.wait_for(switches, flow)
        if self._enter(report, slot):
            effects += self._reallocate_for_news(slot, pending.flows)  # whose shares go out with the answer
        if not own_host:
            effects += self._pass_up(report)
        if report.sender in self._contending_peers:
            self._wait_for_shares(pending)
        if pending.waits:
            self._pending.begin(pending)
            return effects
        return effects + self._answer(pending.flows, slot, pending.number)

    def _say_contended(self, slot: int) -> list[Effect]:
        """To those who report the flows that were told otherwise."""
        return self._contended(self._claims.met(), slot)

    def _contended(self, flows: Iterable[tuple[FlowId, str]], slot: int) -> list[Effect]:
        """Each with the peer that is to hear it."""
        by_peer: dict[str, list[FlowId]] = {}
        for flow, peer in flows:
            by_peer.setdefault(peer, []).append(flow)
        return [
            Send(peer, Feedback(self.name, NO_ANSWER, slot, (), self._silent, tuple(contended)))
            for peer, contended in by_peer.items()
        ]

    def _pass_up(self, report: Report) -> list[Effect]:
        if self.arbitration is None or self._domain.parent is None:
            return []
        number = self._federation.next_number(self._now_ns)
        return self._federation.pass_up(report, number, self._domain.parent, self.arbitration.passing)

    def _feedback(self, feedback: Feedback, slot: int) -> list[Effect]:
        """Another switch answered a forwarded report, or pushed."""
        complete: list[PendingReport] = []
        news: list[FlowId] = []
        for flow in self._federation.heard(feedback):
            complete += self._pending.heard(feedback.sender, flow, feedback.answers)
            if flow not in self._pending:  # else it is answered with the other flows of its pending report
                news.append(flow)
        self._pending.answered(feedback.sender, feedback.answers)
        effects = self._complete(complete, slot) + self._answer(sorted(set(news)), slot)
        own = ((flow, flow.source) for flow in feedback.contended if flow.source in self._domain.hosts)
        return effects + self._contended(own, slot)

    def _complete(self, reports: Iterable[PendingReport], slot: int) -> list[Effect]:
        """Answer these reports: no word is waited for any more. One whose flows are through is answered with nothing: a
        host on its own would stay so for as long as its bursts are shorter than an answer takes."""
        effects: list[Effect] = []
        for report in reports:
            if not report.flows:
                effects.append(Send(report.sender, Feedback(self.name, report.number, slot, (), self._silent)))
            self._pending.end(report.flows)
            effects += self._answer(report.flows, slot, report.number)
        return effects

    def _answer(self, flows: Iterable[FlowId], slot: int, number: int = NO_ANSWER) -> list[Effect]:
        """One message per peer with the grants of these flows, but for those about which a word is still missing.

        `number` is that of the report it answers; NO_ANSWER for a push.
        """
        ready = [flow for flow in flows if flow in self._claims and not self._pending.waits_about(flow)]
        shares = None if self.arbitration is None else self.arbitration.shares
        by_peer: dict[str, list[Grant]] = {}
        for own in self._claims.grants(ready, slot, shares):
            by_peer.setdefault(self._claims.reporter(own.flow), []).append(self._federation.merge(own, slot))
        return [
            Send(peer, Feedback(self.name, number, slot, tuple(grants), self._silent))
            for peer, grants in by_peer.items()
        ]

    @property
    def _silent(self) -> tuple[str, ...]:
        return tuple(sorted(self.silent))

    # ---- Other switches come and go ----

    def _lose(self, lost: set[str], slot: int) -> list[Effect]:
        """Wait for these no longer, and forget what they said."""
        self._federation.lose(lost)
        effects: list[Effect] = []
        if self._domain.parent in lost:
            effects = self._reallocate(slot)
            lost = lost | {PARENT_DECISION}
        return effects + self._complete(self._pending.lose(lost), slot)

    def _find(self, found: set[str], slot: int) -> list[Effect]:
        """These switches may have been restarted, and know nothing of what was said before."""
        parent_is_back = self._domain.parent in self.silent & found
        self._federation.silent -= found
        if self.arbitration is not None:
            self._bids_changed |= self.arbitration.remove_children(found)
        return self._reallocate(slot) if parent_is_back else []

    # ---- Arbitration ----

    def _enter(self, report: Report, slot: int) -> bool:
        """A report's claims; True if the links are to be divided anew at once."""
        if self.arbitration is None:
            return False
        withdrawn = [gone.flow for gone in report.withdrawn]
        if report.sender in self._contending_peers:
            return self._contend(report.claims, withdrawn, slot)
        news = [self.arbitration.passes(claim.flow, claim.path) for claim in report.claims]
        news += [self.arbitration.passed(flow) for flow in withdrawn]
        return any(news)

    def _contend(
        self, claims: Iterable[Claim], withdrawn: Sequence[FlowId], slot: int, child: str | None = None
    ) -> bool:
        """True if a flow came or left; mere renewals wait for the next tick."""
        assert self.arbitration is not None
        self._bids_changed = True
        left = self.arbitration.remove(withdrawn)
        self.arbitration.forget(self._claims.left_alone(withdrawn))
        most = self._max_weight
        held = (claim if claim.weight <= most else claim._replace(weight=most) for claim in claims)
        came = self.arbitration.put(held, slot, self._now_ns, child)
        return left or came

    def _wait_for_shares(self, pending: PendingReport) -> None:
        """A newcomer has no share yet where the links are not divided at once, or its claim was sent up."""
        if self.arbitration is None:
            return
        for flow in pending.flows:
            if flow not in self.arbitration.shares:
                if self._news_due_ns is not None:
                    pending.wait_for((OWN_DECISION,), flow)
                elif self._parent_decides:
                    pending.wait_for((PARENT_DECISION,), flow)

    @property
    def _parent_decides(self) -> bool:
        return self._domain.parent is not None and self._domain.parent not in self.silent

    def _reallocate_for_news(self, slot: int, answered: Collection[FlowId] = ()) -> list[Effect]:
        """Flows came or left: divide the links now, or with what comes within the next moments."""
        assert self.arbitration is not None
        due_ns = self._gathering.due_ns(self.arbitration.size, self._now_ns)
        if due_ns <= self._now_ns:
            return self._reallocate(slot, answered)
        self._bids_changed = True
        self._news_due_ns = due_ns if self._news_due_ns is None else min(due_ns, self._news_due_ns)
        return []

    def _reallocate(self, slot: int, answered: Collection[FlowId] = ()) -> list[Effect]:
        """Divide the links anew and tell the hosts, but for the flows that are answered right after."""
        if self.arbitration is None:
            return []
        self._bids_changed, self._news_due_ns = False, None
        self._gathering.divided(self._now_ns)
        parent = self._domain.parent
        result = self.arbitration.reallocate(self._now_ns, alone=parent in self.silent)
        shares = self.arbitration.shares
        complete = self._pending.divided(lambda flow: flow not in shares and self._parent_decides)
        also = {flow for report in complete for flow in report.flows}
        effects = self._tell(result.changed, slot, also.union(answered)) + self._complete(complete, slot)
        if parent is not None and (result.escalate or result.recall):
            effects.append(Send(parent, EscalatedClaims(self.name, result.escalate, result.recall)))
        return effects

    def _miss_parent(self, slot: int) -> list[Effect]:
        """Its shares would hold for ever where they are 0."""
        assert self.arbitration is not None
        # No longer than from tick to tick: what came while this switch stood still may not have been read yet.
        passed_ns = min(self._now_ns - self._ticked_ns, self._clock.length_ns // REALLOCATIONS_PER_SLOT)
        self._ticked_ns = self._now_ns
        if not self._parent_decides or not self.arbitration.escalated:
            self._undecided_ns = 0
            return []
        self._undecided_ns += passed_ns
        assert self._domain.parent is not None
        lost = self._undecided_ns > SILENT_SLOTS * self._clock.length_ns
        return self._lose({self._domain.parent}, slot) if lost else []

    def _nothing_new(self) -> list[Effect]:
        """Children hear once in a while that their claims have arrived, also where no share changes."""
        unanswered, self._unanswered = self._unanswered, set()
        return [Send(child, ShareUpdate(self.name, ())) for child in sorted(unanswered)]

    def _share_update(self, update: ShareUpdate, slot: int) -> list[Effect]:
        """The parent has decided."""
        assert self.arbitration is not None
        changed = self.arbitration.decided_above(update.shares)
        complete = [report for flow in sorted(changed) for report in self._pending.heard(PARENT_DECISION, flow)]
        answered = {flow for report in complete for flow in report.flows}
        return self._complete(complete, slot) + self._tell(changed, slot, answered)

    def _tell(self, changed: Iterable[FlowId], slot: int, answered: Collection[FlowId]) -> list[Effect]:
        """New shares: to the child that sent the flow up, or straight to its host."""
        assert self.arbitration is not None
        own: list[FlowId] = []
        below: dict[str, list[Share]] = {}
        for flow in sorted(changed):
            child = self.arbitration.child_of.get(flow)
            if child is not None:
                below.setdefault(child, []).append(self.arbitration.shares[flow])
            elif flow not in answered:
                own.append(flow)
        updates: list[Effect] = [Send(child, ShareUpdate(self.name, tuple(shares))) for child, shares in below.items()]
        self._unanswered -= below.keys()
        return updates + self._answer(own, slot)

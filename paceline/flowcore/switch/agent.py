"""SwitchAgent: one emulated switch as a state machine.

It keeps the load table of its links (its outgoing ones, and the uplinks of the hosts plugged into it: a ToR knows
its ports' speed, and a NIC is as shared as any link), tells each flow what its path has promised, enters or
refuses plans, and relays accumulated volumes between dependent flows. Where the policy has an arbiter it also
divides the links among the jobs that want them now (arbitration.py).

A host talks to its own ToR only. The ToR forwards each claim to the other switches on the flow's path, where it
appears as one more reporting peer, and merges their grants with its own:

    available = min,  load = Σ,  accepted = all,  alone = max.

The host gets one answer, when all have answered. A switch that stays silent for a slot, or that the shell says is
lost, is left out: claims are still forwarded to it, nobody waits for it any more, hosts are told, and the first word
from it, or the shell's that it has been found, ends this.

State is soft: everything here came in a report and disappears when the reports stop. A restarted switch is rebuilt
by the next report of each host. So is one whose clock is set back: what it holds is dated in a time to come, so
that no lease would end and no plan meet the slots it is for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paceline.flowcore.detect.cross_traffic import CrossTrafficDetector
from paceline.flowcore.host.policy import Policy
from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.events import Effect, PeersFound, PeersLost, Send, SwitchEvent, Tick
from paceline.flowcore.messages.grants import merged, shifted
from paceline.flowcore.messages.reports import NO_ANSWER, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.domain import Domain
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.switch.arbitration import Arbitration
from paceline.flowcore.switch.job_demand import JobDemand
from paceline.flowcore.switch.load_table import LoadTable, Rates
from paceline.flowcore.switch.pending_reports import PARENT_DECISION, Asked, PendingReport, PendingReports

# Bids grow while jobs wait. Settling them twice a slot costs little and was measured to be as good as always.
SETTLES_PER_SLOT = 2

# A job's flow sizes are kept between iterations, to know how long its exchange takes alone; after this many slots
# of silence (a minute at 60 ms) the job is gone.
JOB_MEMORY_SLOTS = 1000


@dataclass(slots=True)
class _Flow:
    """What is known of a flow with a link in the table."""

    claim: Claim
    peer: str  # who reported it: its host, or its host's ToR
    sizes: JobDemand
    others: tuple[str, ...]  # the other switches on its path
    remote: dict[str, tuple[int, Grant]]  # their grants, with the slot their numbers begin with
    accepted: bool = True


class SwitchAgent:
    def __init__(self, name: str, domain: Domain, clock: SlotClock, policy: Policy) -> None:
        self.name = name
        self._domain = domain
        self._clock = clock
        self._policy = policy
        self.silent: set[str] = set()  # other switches that nobody waits for
        self._letters = 0  # the number of the last ones sent
        self._slot: int | None = None  # of the last event
        self._now_ns = 0
        self._begin()

    def _begin(self) -> None:
        """With nothing known of anybody's flows."""
        domain, policy = self._domain, self._policy
        self.table = LoadTable(domain.table_bps, self._clock.horizon)
        detector = CrossTrafficDetector(domain.scope_bps, self._clock.length_ns)
        cross_traffic = detector if policy.yields_to_cross_traffic else None
        arbiter, self.arbitration = policy.arbiter, None
        if arbiter is not None:
            self.arbitration = Arbitration(domain.scope_bps, arbiter, domain.table_bps, cross_traffic)
        self._flows: dict[FlowId, _Flow] = {}
        self._child_of: dict[FlowId, str] = {}  # contending flows a child sent up
        self._volume: dict[FlowId, float] = {}  # F with this slot's plan
        self._jobs: dict[str, JobDemand] = {}
        self._waiting = PendingReports()
        self._reported: Sequence[FlowId] = ()  # of the report being taken: its answer will speak of them
        self._settle_ns = self._clock.epoch_ns
        self._swept_slot = 0
        self._idle = True
        self._unsettled = False

    def remembers(self, job: str) -> bool:
        """Whether flows of this job have left something here."""
        return job in self._jobs

    def next_deadline(self) -> int | None:
        return None if self._idle else self._settle_ns

    def handle(self, event: SwitchEvent, now_ns: int) -> list[Effect]:
        slot, before = self._clock.index(now_ns), self._slot
        self._slot, self._now_ns = slot, now_ns
        if before is not None and slot < before:
            return self._begin_anew() + self.handle(event, now_ns)
        if self._idle:
            self._idle = False
            self._arm(now_ns)
        if isinstance(event, Report | Feedback | EscalatedClaims | ShareUpdate):
            self.silent.discard(event.sender)
        match event:
            case Report():
                return self._report(event, slot, now_ns)
            case Feedback():
                return self._merge(event, slot)
            case EscalatedClaims():
                return self._contest(event, slot)
            case ShareUpdate():
                return self._decided_above(event, slot)
            case PeersLost():
                return self._lose(event.peers, slot)
            case PeersFound():
                return self._find(event.peers, slot)
            case Tick():
                return self._tick(slot, now_ns)

    def _begin_anew(self) -> list[Effect]:
        """Time has turned back. The parent, for which it has not, must decide again what we forget."""
        escalated = () if self.arbitration is None else self.arbitration.escalated
        self._begin()
        if self._domain.parent is None or not escalated:
            return []
        return [Send(self._domain.parent, EscalatedClaims(self.name, (), escalated))]

    def _tick(self, slot: int, now_ns: int) -> list[Effect]:
        self._arm(now_ns)
        effects = self._answer_overdue(slot)  # before anything is forgotten: after a long stall it may be their flows
        for flow in self.table.expire(slot):
            self._forget(flow)
            self._volume[flow] = UNLIMITED  # its host says nothing any more: nobody waits for it
            if self.arbitration is not None:
                self._unsettled |= self.arbitration.passed(flow)
        self._forget_jobs(slot)
        if self.arbitration is not None:
            for flow in self.arbitration.expire(slot):
                self._child_of.pop(flow, None)
                self._unsettled = True
            if self._unsettled:
                effects += self._settle(slot)
        self._idle = not self._flows and not self._jobs and (self.arbitration is None or self.arbitration.empty)
        return effects

    def _forget_jobs(self, slot: int) -> None:
        """Those that nobody has spoken of for long, and now and then such flows of the others."""
        for job in [job for job, sizes in self._jobs.items() if slot - sizes.heard_slot > JOB_MEMORY_SLOTS]:
            del self._jobs[job]
            for flow in [flow for flow in self._volume if flow.job == job]:
                del self._volume[flow]
        if slot - self._swept_slot > JOB_MEMORY_SLOTS // 10:
            self._swept_slot = slot
            for sizes in self._jobs.values():
                sizes.forget(slot - JOB_MEMORY_SLOTS)

    def _answer_overdue(self, slot: int) -> list[Effect]:
        overdue, late = self._waiting.overdue(slot)
        effects = self._complete(overdue, slot)
        return effects + self._lose(late, slot) if late else effects

    def _arm(self, now_ns: int) -> None:
        step_ns = max(1, self._clock.length_ns // SETTLES_PER_SLOT)
        start_ns = self._clock.start_ns(self._clock.index(now_ns))
        self._settle_ns = start_ns + ((now_ns - start_ns) // step_ns + 1) * step_ns

    # ---- The load table ----

    def _report(self, report: Report, slot: int, now_ns: int) -> list[Effect]:
        own_host = report.sender in self._domain.hosts  # only a host's own ToR forwards
        # Of all hosts' letters each has a higher number than the one before, also after a restart: see letters.py.
        self._letters = max(self._letters + 1, now_ns)
        letters = _Letters(self.name, self._letters, report.first_slot)
        effects: list[Effect] = []
        for withdrawal in report.withdrawn:
            gone = self._flows.get(withdrawal.flow)
            if own_host and gone is not None:
                letters.withdraw(withdrawal, gone.others)
            effects += self._complete(self._forget(withdrawal.flow), slot)
            if withdrawal.flow.job in self._jobs:
                self._volume[withdrawal.flow] = withdrawal.volume_bytes
        answer = PendingReport(report.number, Asked(slot, self._letters))
        # What this report names is answered with it: only the rest of an older one is still to be answered.
        older = self._waiting.replace_with(answer, [claim.flow for claim in report.claims])
        effects += self._complete(older, slot)
        for claim in report.claims:
            others = self._note(claim, report.sender, slot).others
            answer.flows.append(claim.flow)
            if own_host and others:
                letters.claim(claim, others)
                if heeded := set(others) - self.silent:
                    answer.wait_for(heeded, claim.flow)
        self._enter(report, slot)
        self._reported = answer.flows
        if self.arbitration is not None:
            effects += self._contend(report, answer, slot)
        self._reported = ()
        if answer.missing:
            self._waiting.begin(answer)
            return letters.sends() + effects
        return letters.sends() + effects + self._answer(answer.flows, slot, answer.number)

    def _note(self, claim: Claim, peer: str, slot: int) -> _Flow:
        flow = claim.flow
        links = self.table.renew(flow, claim.path, slot)
        known = self._flows.get(flow)
        if known is None:
            sizes = self._jobs.setdefault(flow.job, JobDemand(self._domain.table_bps))
            known = self._flows[flow] = _Flow(claim, peer, sizes, self._others_on(claim.path), {})
        else:
            known.claim, known.peer = claim, peer
        known.sizes.learn(claim, links, slot)
        self._volume[flow] = claim.sent_bytes + claim.planned_bytes
        return known

    def _others_on(self, path: Iterable[str]) -> tuple[str, ...]:
        keeper = self._domain.keeper
        return tuple(dict.fromkeys(keeper[link] for link in path if keeper[link] != self.name))

    def _enter(self, report: Report, slot: int) -> None:
        plans = {claim.flow: claim.plan_bps for claim in report.claims if claim.plan_bps}
        for flow, accepted in self.table.enter(plans, report.first_slot, slot).items():
            self._flows[flow].accepted = accepted

    def _forget(self, flow: FlowId) -> list[PendingReport]:
        """Drop the claim and all that came with it. F stays: downstream must learn that the flow is through.

        Returns the report that waited for nobody but this flow, if there was one.
        """
        self.table.drop(flow)
        self._flows.pop(flow, None)
        return self._waiting.stop(flow)

    def _complete(self, reports: Iterable[PendingReport], slot: int) -> list[Effect]:
        """Answer these reports; nobody is waited for any more."""
        effects: list[Effect] = []
        for report in reports:
            self._waiting.end(report.flows)
            effects += self._answer(report.flows, slot, report.number)
        return effects

    def _answer(self, flows: Iterable[FlowId], slot: int, number: int = NO_ANSWER) -> list[Effect]:
        """One message per peer with the grants of these flows, but for those that others have yet to speak about.

        `number` is that of the report it answers.
        """
        ready = [flow for flow in flows if flow in self._flows and not self._waiting.for_word_on(flow)]
        by_peer: dict[str, list[Grant]] = {}
        for flow, (available_bps, load) in zip(ready, self.table.view(ready, slot), strict=True):
            known = self._flows[flow]
            by_peer.setdefault(known.peer, []).append(self._grant(known, slot, available_bps, load))
        silent = tuple(sorted(self.silent))
        return [
            Send(peer, Feedback(self.name, number, slot, tuple(grants), silent)) for peer, grants in by_peer.items()
        ]

    def _grant(self, known: _Flow, slot: int, available_bps: Rates, load: Rates) -> Grant:
        claim = known.claim
        share = None if self.arbitration is None else self.arbitration.shares.get(claim.flow)
        upstream_bytes, downstream_bytes = UNLIMITED, 0.0
        if claim.upstream:
            unheard = 0.0 if self._domain.sees_arrivals else UNLIMITED
            upstream_bytes = min([self._progress_of(feeder, known, unheard) for feeder in claim.upstream])
        if claim.downstream:
            told = [self._progress_of(after, known, 0.0) for after in claim.downstream]
            downstream_bytes = max([0.0, *(volume for volume in told if volume < UNLIMITED)])
        own = Grant(
            claim.flow,
            known.accepted,
            share.share_bps if share else 0.0,
            share.ceiling_bps if share else 0.0,
            available_bps,
            load,
            known.sizes.alone_ns,
            upstream_bytes,
            downstream_bytes,
        )
        if not known.remote:
            return own
        return merged(own, [shifted(grant, slot - first) for first, grant in known.remote.values()])

    def _progress_of(self, flow: FlowId, asker: _Flow, unheard: float) -> float:
        """Its F, in the asker's bytes: hosts learn sizes by themselves, and iterations multiply what they differ by."""
        size_bytes = asker.sizes.of(flow)
        scale = asker.claim.size_bytes / size_bytes if size_bytes else 1.0
        return self._volume.get(flow, unheard) * scale

    # ---- Federation of tables ----

    def _merge(self, feedback: Feedback, slot: int) -> list[Effect]:
        """Another switch answered a forwarded claim, or pushed."""
        complete: list[PendingReport] = []
        news: set[FlowId] = set()
        for grant in feedback.grants:
            flow = grant.flow
            if known := self._flows.get(flow):
                known.remote[feedback.sender] = (feedback.first_slot, grant)
                complete += self._waiting.heard_from(feedback.sender, flow, feedback.answers)
                if flow not in self._waiting:
                    news.add(flow)
        # A flow whose report is still open is answered with the others of it.
        return self._complete(complete, slot) + self._answer(sorted(news), slot)

    def _lose(self, peers: Iterable[str], slot: int) -> list[Effect]:
        """Wait for these no longer, and forget what they said."""
        lost = set(peers)
        self.silent |= lost
        for known in self._flows.values():
            for peer in lost & known.remote.keys():
                del known.remote[peer]
        effects = self._settle(slot) if self.arbitration is not None and self._domain.parent in lost else []
        unheard = lost | ({PARENT_DECISION} if self._domain.parent in lost else set())
        return effects + self._complete(self._waiting.no_longer_for(unheard), slot)

    def _find(self, peers: Iterable[str], slot: int) -> list[Effect]:
        """They may have been restarted, and know nothing of what was said before."""
        found = set(peers)
        parent_is_back = self.arbitration is not None and self._domain.parent in self.silent & found
        self.silent -= found
        self._forget_what_came_from(found)
        return self._settle(slot) if parent_is_back else []

    # ---- Arbitration ----

    @property
    def _contending_peers(self) -> frozenset[str]:
        """Who brings contenders: its own hosts. A ToR that forwards a claim for the table contends elsewhere."""
        return self._domain.hosts or frozenset((self.name,))

    def _contend(self, report: Report, answer: PendingReport, slot: int) -> list[Effect]:
        assert self.arbitration is not None
        if report.sender in self._contending_peers:
            effects = self._compete(report.claims, [flow for flow, _ in report.withdrawn], slot)
            self._await_verdict(answer)
            return effects
        news = [self.arbitration.passes(claim.flow, claim.path) for claim in report.claims]
        news += [self.arbitration.passed(flow) for flow, _ in report.withdrawn]
        return self._settle(slot) if any(news) else []

    def _contest(self, contest: EscalatedClaims, slot: int) -> list[Effect]:
        """A child's groups that reach beyond it."""
        for flow in contest.withdrawn:
            self._child_of.pop(flow, None)
        for claim in contest.claims:
            self._child_of[claim.flow] = contest.sender
        return self._compete(contest.claims, contest.withdrawn, slot)

    def _forget_what_came_from(self, children: set[str]) -> None:
        """What they send up next is new again: a child without its shares would wait for ever for a change of them."""
        flows = [flow for flow, child in self._child_of.items() if child in children]
        for flow in flows:
            del self._child_of[flow]
        if self.arbitration is not None:
            self._unsettled |= self.arbitration.remove(flows)

    def _compete(self, claims: Iterable[Claim], withdrawn: Iterable[FlowId], slot: int) -> list[Effect]:
        """Settle at once when somebody came or left; mere renewals wait for the next tick."""
        assert self.arbitration is not None
        left = self.arbitration.remove(withdrawn)
        came = self.arbitration.put(claims, slot, self._now_ns)
        if left or came:
            return self._settle(slot)
        self._unsettled = True
        return []

    def _settle(self, slot: int) -> list[Effect]:
        assert self.arbitration is not None
        self._unsettled = False
        settlement = self.arbitration.reallocate(self._now_ns, alone=self._domain.parent in self.silent)
        effects = self._tell(settlement.changed, slot)
        if self._domain.parent is not None and (settlement.escalate or settlement.recall):
            contest = EscalatedClaims(self.name, settlement.escalate, settlement.recall)
            effects.append(Send(self._domain.parent, contest))
        return effects

    def _await_verdict(self, answer: PendingReport) -> None:
        """A newcomer that was sent up has no share yet: its host is answered when the parent has decided."""
        assert self.arbitration is not None
        if self._domain.parent is not None and self._domain.parent not in self.silent:
            for flow in answer.flows:
                if flow not in self.arbitration.shares:
                    answer.wait_for((PARENT_DECISION,), flow)

    def _decided_above(self, verdict: ShareUpdate, slot: int) -> list[Effect]:
        assert self.arbitration is not None
        changed = self.arbitration.decided_above(verdict.shares)
        complete = [report for flow in sorted(changed) for report in self._waiting.heard_from(PARENT_DECISION, flow)]
        answered = {flow for report in complete for flow in report.flows}
        return self._complete(complete, slot) + self._tell(changed - answered, slot)

    def _tell(self, changed: Iterable[FlowId], slot: int) -> list[Effect]:
        """New shares: to the child that sent the flow up, or straight to its host."""
        assert self.arbitration is not None
        own: list[FlowId] = []
        below: dict[str, list[Share]] = {}
        for flow in sorted(changed):
            if flow in self._child_of:
                below.setdefault(self._child_of[flow], []).append(self.arbitration.shares[flow])
            elif flow not in self._reported:
                own.append(flow)
        verdicts: list[Effect] = [Send(child, ShareUpdate(self.name, tuple(shares))) for child, shares in below.items()]
        return verdicts + self._answer(own, slot)


class _Letters:
    """To each other switch on the paths of a host's flows, what concerns its links."""

    def __init__(self, name: str, number: int, first_slot: int) -> None:
        self._name, self._number, self._first_slot = name, number, first_slot
        self._claims: dict[str, list[Claim]] = {}
        self._withdrawn: dict[str, list[Withdrawal]] = {}

    def claim(self, claim: Claim, switches: Iterable[str]) -> None:
        for switch in switches:
            self._claims.setdefault(switch, []).append(claim)

    def withdraw(self, withdrawal: Withdrawal, switches: Iterable[str]) -> None:
        for switch in switches:
            self._withdrawn.setdefault(switch, []).append(withdrawal)

    def sends(self) -> list[Effect]:
        return [
            Send(
                switch,
                Report(
                    self._name,
                    self._number,
                    self._first_slot,
                    tuple(self._claims.get(switch, ())),
                    tuple(self._withdrawn.get(switch, ())),
                ),
            )
            for switch in dict.fromkeys([*self._claims, *self._withdrawn])
        ]

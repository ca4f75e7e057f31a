"""SwitchAgent: one emulated switch as a state machine.

It keeps the load table of its links (its outgoing ones, and the uplinks of the hosts plugged into it: a ToR knows
its ports' speed, and a NIC is as shared as any link), tells each flow what its path has promised, enters or
refuses plans, and relays accumulated volumes between dependent flows. Where the policy has an arbiter it also
divides the links among the jobs that want them now (arena.py).

A host talks to its own ToR only. The ToR forwards each claim to the other switches on the flow's path, where it
appears as one more reporting peer, and merges their grants with its own:

    available = min,  load = Σ,  accepted = all,  alone = max.

The host gets one answer, when all have answered. A switch that stays silent for a slot, or that the shell says is
lost, is left out: claims are still forwarded to it, nobody waits for it any more, hosts are told, and the first word
from it, or the shell's that it has been found, ends this.

State is soft: everything here came in a report and disappears when the reports stop. A restarted switch is rebuilt
by the next report of each host.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flowcore.arbitrate import Arbiter
from flowcore.arena import Arena
from flowcore.domain import Domain
from flowcore.grants import merged, shifted
from flowcore.job_sizes import JobSizes
from flowcore.messages import (
    NO_ANSWER,
    Claim,
    Contest,
    Effect,
    Feedback,
    Grant,
    PeersFound,
    PeersLost,
    Report,
    Send,
    Share,
    SwitchEvent,
    Tick,
    Verdict,
    Withdrawal,
)
from flowcore.patterns import FlowId
from flowcore.slots import SlotClock
from flowcore.table import LoadTable, Plan
from flowcore.units import UNLIMITED

# Bids grow while jobs wait. Settling them twice a slot costs little and was measured to be as good as always.
SETTLES_PER_SLOT = 2

# A job's flow sizes are kept between iterations, to know how long its exchange takes alone; after this many slots
# of silence (a minute at 60 ms) the job is gone.
JOB_MEMORY_SLOTS = 1000

# In place of a switch's name, among what an answer waits for: the parent's decision. The parent's table answers too,
# and is not the same.
VERDICT = "verdict"


@dataclass(slots=True)
class _Awaited:
    """A report on its way to one answer."""

    number: int
    slot: int
    flows: list[FlowId]
    missing: dict[FlowId, set[str]]  # whose word is missing about which flow: switches' names, or VERDICT


class SwitchAgent:
    def __init__(self, name: str, domain: Domain, clock: SlotClock, arbiter: Arbiter | None) -> None:
        self.name = name
        self.table = LoadTable(domain.table_bps, clock.horizon)
        self.arena = None if arbiter is None else Arena(domain.scope_bps, arbiter, domain.table_bps)
        self._domain = domain
        self._clock = clock
        self._claims: dict[FlowId, Claim] = {}  # flows with a link in the table
        self._peer_of: dict[FlowId, str] = {}  # who reported them: their host, or its ToR
        self._child_of: dict[FlowId, str] = {}  # contending flows a child sent up
        self._accepted: dict[FlowId, bool] = {}
        self._volume: dict[FlowId, float] = {}  # F with this slot's plan
        self._jobs: dict[str, JobSizes] = {}
        # Grants of other switches on the flow's path, with the slot their numbers begin with.
        self._remote: dict[FlowId, dict[str, tuple[int, Grant]]] = {}
        self._awaited: dict[FlowId, _Awaited] = {}  # the report that a flow's answer belongs to
        self._reported: list[FlowId] = []  # of the report being taken: its answer will speak of them
        self.silent: set[str] = set()  # other switches that nobody waits for
        self._settle_ns = clock.epoch_ns
        self._idle = True
        self._unsettled = False

    def remembers(self, job: str) -> bool:
        """Whether flows of this job have left something here."""
        return job in self._jobs

    def next_deadline(self) -> int | None:
        return None if self._idle else self._settle_ns

    def handle(self, event: SwitchEvent, now_ns: int) -> list[Effect]:
        slot = self._clock.index(now_ns)
        if self._idle:
            self._idle = False
            self._arm(now_ns)
        if isinstance(event, Report | Feedback | Contest | Verdict):
            self.silent.discard(event.sender)
        match event:
            case Report():
                return self._report(event, slot)
            case Feedback():
                return self._merge(event, slot)
            case Contest():
                return self._contest(event, slot)
            case Verdict():
                return self._decided_above(event, slot)
            case PeersLost():
                return self._lose(event.peers, slot)
            case PeersFound():
                return self._find(event.peers, slot)
            case Tick():
                return self._tick(slot, now_ns)

    def _tick(self, slot: int, now_ns: int) -> list[Effect]:
        self._arm(now_ns)
        effects = self._answer_overdue(slot)  # before anything is forgotten: after a long stall it may be their flows
        for flow in self.table.expire(slot):
            self._forget(flow)
            if self.arena is not None:
                self._unsettled |= self.arena.passed(flow)
        for job in [job for job, sizes in self._jobs.items() if slot - sizes.heard_slot > JOB_MEMORY_SLOTS]:
            del self._jobs[job]
            for flow in [flow for flow in self._volume if flow.job == job]:
                del self._volume[flow]
        if self.arena is not None:
            for flow in self.arena.expire(slot):
                self._child_of.pop(flow, None)
                self._unsettled = True
            if self._unsettled:
                effects += self._settle(slot)
        self._idle = not self._claims and not self._jobs and (self.arena is None or self.arena.empty)
        return effects

    def _answer_overdue(self, slot: int) -> list[Effect]:
        overdue = self._open_reports(lambda awaited: awaited.slot < slot - 1)
        # A verdict may stay away because nothing changed; a table owes an answer.
        late = {peer for awaited in overdue for peers in awaited.missing.values() for peer in peers} - {VERDICT}
        for awaited in overdue:
            awaited.missing.clear()
        effects = self._complete(overdue, slot)
        return effects + self._lose(late, slot) if late else effects

    def _arm(self, now_ns: int) -> None:
        step_ns = max(1, self._clock.length_ns // SETTLES_PER_SLOT)
        start_ns = self._clock.start_ns(self._clock.index(now_ns))
        self._settle_ns = start_ns + ((now_ns - start_ns) // step_ns + 1) * step_ns

    # ---- The load table ----

    def _report(self, report: Report, slot: int) -> list[Effect]:
        effects, missing = self._forward(report)
        for flow, volume_bytes in report.withdrawn:
            effects += self._complete(self._forget(flow), slot)
            if flow.job in self._jobs:
                self._volume[flow] = volume_bytes
        awaited = _Awaited(report.number, slot, [claim.flow for claim in report.claims], missing)
        self._reported = awaited.flows
        for claim in report.claims:
            effects += self._complete(self._stop_waiting(claim.flow), slot)
            self._awaited[claim.flow] = awaited
            self._enter(claim, report, slot)
        if self.arena is not None:
            if report.sender in self._contending_peers:
                effects += self._compete(report.claims, [flow for flow, _ in report.withdrawn], slot)
                self._await_verdict(awaited)
            else:
                news = [self.arena.passes(claim.flow, claim.path) for claim in report.claims]
                news += [self.arena.passed(flow) for flow, _ in report.withdrawn]
                if any(news):
                    effects += self._settle(slot)
        self._reported = []
        return effects if awaited.missing else effects + self._complete([awaited], slot)

    @property
    def _contending_peers(self) -> frozenset[str]:
        """Who brings contenders: its own hosts. A ToR that forwards a claim for the table contends elsewhere."""
        return self._domain.hosts or frozenset((self.name,))

    def _enter(self, claim: Claim, report: Report, slot: int) -> None:
        flow = claim.flow
        self._claims[flow] = claim
        self._peer_of[flow] = report.sender
        self._volume[flow] = claim.sent_bytes + claim.planned_bytes
        links = self.table.renew(flow, claim.path, slot)
        sizes = self._jobs.setdefault(flow.job, JobSizes())
        sizes.heard_slot = slot
        sizes.learn(claim, links, self._domain.table_bps)
        if claim.plan_bps:
            self._accepted[flow] = self.table.enter(flow, Plan(report.first_slot, claim.plan_bps), slot)

    def _forget(self, flow: FlowId) -> list[_Awaited]:
        """Drop the claim and all that came with it. F stays: followers must learn that the flow is through.

        Returns the report that waited for nobody but this flow, if there was one.
        """
        self.table.drop(flow)
        self._claims.pop(flow, None)
        self._peer_of.pop(flow, None)
        self._accepted.pop(flow, None)
        self._remote.pop(flow, None)
        return self._stop_waiting(flow)

    def _answer(self, flows: Iterable[FlowId], slot: int, number: int = NO_ANSWER) -> list[Effect]:
        """One message per peer with the grants of these flows, but for those that others have yet to speak about.

        `number` is that of the report it answers.
        """
        by_peer: dict[str, list[Grant]] = {}
        for flow in flows:
            awaited = self._awaited.get(flow)
            if flow in self._claims and (awaited is None or flow not in awaited.missing):
                by_peer.setdefault(self._peer_of[flow], []).append(self._grant(flow, slot))
        silent = tuple(sorted(self.silent))
        return [
            Send(peer, Feedback(self.name, number, slot, tuple(grants), silent)) for peer, grants in by_peer.items()
        ]

    # ---- Reports that wait for others ----

    def _open_reports(self, which: Callable[[_Awaited], bool]) -> list[_Awaited]:
        reports = {id(awaited): awaited for awaited in self._awaited.values()}
        return [awaited for awaited in reports.values() if which(awaited)]

    def _stop_waiting(self, flow: FlowId) -> list[_Awaited]:
        """The flow's answer belongs to another report from now on, or to none."""
        awaited = self._awaited.pop(flow, None)
        if awaited is None:
            return []
        awaited.flows.remove(flow)
        return [awaited] if awaited.missing.pop(flow, None) and not awaited.missing else []

    def _heard_from(self, whom: str, flow: FlowId, number: int | None = None) -> list[_Awaited]:
        """Somebody an answer waited for has spoken; returns its report if that was the last word missing."""
        awaited = self._awaited.get(flow)
        if awaited is None or flow not in awaited.missing or number not in (None, awaited.number):
            return []
        missing = awaited.missing[flow]
        missing.discard(whom)
        if not missing:
            del awaited.missing[flow]
        return [] if awaited.missing else [awaited]

    def _complete(self, reports: Iterable[_Awaited], slot: int) -> list[Effect]:
        """Answer these reports; nobody is waited for any more."""
        effects: list[Effect] = []
        for awaited in reports:
            for flow in awaited.flows:
                self._awaited.pop(flow, None)
            effects += self._answer(awaited.flows, slot, awaited.number)
        return effects

    def _grant(self, flow: FlowId, slot: int) -> Grant:
        claim = self._claims[flow]
        available, load = self.table.view(flow, slot)
        share = None if self.arena is None else self.arena.shares.get(flow)
        pred_bytes, follower_bytes, volume = UNLIMITED, 0.0, self._volume
        if claim.preds:
            unheard = 0.0 if self._domain.sees_arrivals else UNLIMITED
            pred_bytes = min([volume.get(pred, unheard) for pred in claim.preds])
        if claim.followers:
            follower_bytes = max([volume.get(after, 0.0) for after in claim.followers])
        own = Grant(
            flow=flow,
            accepted=self._accepted.get(flow, True),
            share_bps=share.share_bps if share else 0.0,
            ceiling_bps=share.ceiling_bps if share else 0.0,
            available_bps=available,
            load=load,
            alone_ns=self._jobs[flow.job].alone_ns,
            pred_bytes=pred_bytes,
            follower_bytes=follower_bytes,
        )
        others = self._remote.get(flow)
        if not others:
            return own
        return merged(own, [shifted(grant, slot - first) for first, grant in others.values()])

    # ---- Federation of tables ----

    def _forward(self, report: Report) -> tuple[list[Effect], dict[FlowId, set[str]]]:
        """To each other switch on the paths, what concerns its links, and who owes an answer about which flow.

        Only a host's own ToR forwards.
        """
        if report.sender not in self._domain.hosts:
            return [], {}
        missing: dict[FlowId, set[str]] = {}
        claims: dict[str, list[Claim]] = {}
        withdrawn: dict[str, list[Withdrawal]] = {}
        for claim in report.claims:
            others = self._others_on(claim.path)
            if heeded := others.keys() - self.silent:
                missing[claim.flow] = heeded
            for switch in others:
                claims.setdefault(switch, []).append(claim)
        for withdrawal in report.withdrawn:
            if withdrawal.flow in self._claims:
                for switch in self._others_on(self._claims[withdrawal.flow].path):
                    withdrawn.setdefault(switch, []).append(withdrawal)
        sends: list[Effect] = [
            Send(
                switch,
                Report(
                    self.name,
                    report.number,
                    report.first_slot,
                    tuple(claims.get(switch, ())),
                    tuple(withdrawn.get(switch, ())),
                ),
            )
            for switch in dict.fromkeys([*claims, *withdrawn])
        ]
        return sends, missing

    def _others_on(self, path: Iterable[str]) -> dict[str, None]:
        keeper = self._domain.keeper
        return dict.fromkeys(keeper[link] for link in path if keeper[link] != self.name)

    def _merge(self, feedback: Feedback, slot: int) -> list[Effect]:
        """Another switch answered a forwarded claim, or pushed."""
        complete: list[_Awaited] = []
        news: set[FlowId] = set()
        for grant in feedback.grants:
            flow = grant.flow
            if flow in self._claims:
                self._remote.setdefault(flow, {})[feedback.sender] = (feedback.first_slot, grant)
                complete += self._heard_from(feedback.sender, flow, feedback.answers)
                if flow not in self._awaited:
                    news.add(flow)
        # A flow whose report is still open is answered with the others of it.
        return self._complete(complete, slot) + self._answer(sorted(news), slot)

    def _lose(self, peers: Iterable[str], slot: int) -> list[Effect]:
        """Wait for these no longer, and forget what they said."""
        lost = set(peers)
        self.silent |= lost
        for grants in self._remote.values():
            for peer in lost & grants.keys():
                del grants[peer]
        effects = self._settle(slot) if self.arena is not None and self._domain.parent in lost else []
        unheard = lost | ({VERDICT} if self._domain.parent in lost else set())
        for awaited in self._open_reports(lambda _: True):
            awaited.missing = {flow: left for flow, who in awaited.missing.items() if (left := who - unheard)}
        return effects + self._complete(self._open_reports(lambda awaited: not awaited.missing), slot)

    def _find(self, peers: Iterable[str], slot: int) -> list[Effect]:
        parent_is_back = self.arena is not None and self._domain.parent in self.silent & set(peers)
        self.silent -= set(peers)
        return self._settle(slot) if parent_is_back else []

    # ---- Arbitration ----

    def _contest(self, contest: Contest, slot: int) -> list[Effect]:
        """A child's groups that reach beyond it."""
        for flow in contest.withdrawn:
            self._child_of.pop(flow, None)
        for claim in contest.claims:
            self._child_of[claim.flow] = contest.sender
        return self._compete(contest.claims, contest.withdrawn, slot)

    def _compete(self, claims: Iterable[Claim], withdrawn: Iterable[FlowId], slot: int) -> list[Effect]:
        """Settle at once when somebody came or left; mere renewals wait for the next tick."""
        assert self.arena is not None
        left = self.arena.remove(withdrawn)
        came = self.arena.put(claims, slot)
        if left or came:
            return self._settle(slot)
        self._unsettled = True
        return []

    def _settle(self, slot: int) -> list[Effect]:
        assert self.arena is not None
        self._unsettled = False
        settlement = self.arena.settle(alone=self._domain.parent in self.silent)
        effects = self._tell(settlement.changed, slot)
        if self._domain.parent is not None and (settlement.escalate or settlement.recall):
            contest = Contest(self.name, settlement.escalate, settlement.recall)
            effects.append(Send(self._domain.parent, contest))
        return effects

    def _await_verdict(self, awaited: _Awaited) -> None:
        """A newcomer that was sent up has no share yet: its host is answered when the parent has decided."""
        assert self.arena is not None
        if self._domain.parent is not None and self._domain.parent not in self.silent:
            for flow in awaited.flows:
                if flow not in self.arena.shares:
                    awaited.missing.setdefault(flow, set()).add(VERDICT)

    def _decided_above(self, verdict: Verdict, slot: int) -> list[Effect]:
        assert self.arena is not None
        changed = self.arena.decided_above(verdict.shares)
        complete = [awaited for flow in sorted(changed) for awaited in self._heard_from(VERDICT, flow)]
        answered = {flow for awaited in complete for flow in awaited.flows}
        return self._complete(complete, slot) + self._tell(changed - answered, slot)

    def _tell(self, changed: Iterable[FlowId], slot: int) -> list[Effect]:
        """New shares: to the child that sent the flow up, or straight to its host."""
        assert self.arena is not None
        own: list[FlowId] = []
        below: dict[str, list[Share]] = {}
        for flow in sorted(changed):
            if flow in self._child_of:
                below.setdefault(self._child_of[flow], []).append(self.arena.shares[flow])
            elif flow not in self._reported:
                own.append(flow)
        verdicts: list[Effect] = [
            Send(child, Verdict(self.name, tuple(shares))) for child, shares in below.items()
        ]
        return verdicts + self._answer(own, slot)

"""HostAgent: the scheduler of one host as a state machine.

It knows the jobs on its host, how far each of their flows is, and what the switch last said about each path. What
to make of that is the policy's: the agent keeps the state, calls the policy when something happens, and turns its
decisions into messages and rates.

    Progress, FlowReady, FlowDone, IterationEnded   from the monitor        Limit           to the enforcer
    Feedback                                        from the switch         Send(Report)    to the switch
    Tick                                            at next_deadline()
    Together                                        all that happened at one time: its effects are joined (joining.py)

Without a switch (public cloud, §VI-H, or a switch silent for SILENCE_SLOTS) it asks an agent of its own that keeps
the table of this host's NIC and nothing else: the same code with one link.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from paceline.flowcore.allocation.alone import alone_ns
from paceline.flowcore.host.answers import AnswerClock
from paceline.flowcore.host.bandwidth import BandwidthEstimate, Stretches
from paceline.flowcore.host.flow_state import FlowState, JobFlows
from paceline.flowcore.host.joining import joined
from paceline.flowcore.host.policy import REMIND_SLOTS, JobState, Policy
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.events import (
    FLOOR_BPS,
    ClockSet,
    Effect,
    FlowDone,
    FlowReady,
    HostInput,
    IterationEnded,
    JobJoined,
    JobLeft,
    Limit,
    OthersSend,
    Progress,
    Send,
    SwitchLost,
    Tick,
    Together,
    Welcomed,
)
from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Report, Withdrawal
from paceline.flowcore.model.background import FAIR
from paceline.flowcore.model.domain import Domain
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import UNLIMITED, transfer_bytes
from paceline.flowcore.switch.agent import SwitchAgent

# As long as the switch keeps an entry of its load table: by then it has forgotten this host's flows as well.
SILENCE_SLOTS = 3


class HostAgent:
    def __init__(
        self,
        name: str,
        topology: Topology,
        clock: SlotClock,
        policy: Policy,
        switch: str | None,
        background: str = FAIR,
    ) -> None:
        """`background`: what it does about cross traffic while no switch decides (model/background.py)."""
        self.name = name
        self.clock = clock
        self.policy = policy
        self.jobs: dict[str, JobFlows] = {}
        self.flows: dict[FlowId, FlowState] = {}
        # Several NICs count as one: without a switch they are limited by what leaves the host, not by which way.
        nics = topology.nics(name)
        self.nic_bps = sum(nic.capacity_bps for nic in nics)
        self.nic = replace(nics[0], capacity_bps=self.nic_bps)
        self.others_bps = 0.0  # of that
        self.meets_foreign = False  # some of it is of no job
        self.answers = AnswerClock()
        self.topology = topology  # of jobs that join from now on
        self._switch, self._background = switch, background
        self.local = self._nic_agent()  # what answers when no switch does
        self.isolated = switch is None
        self._number = 0
        self._phase_ns = 0  # when in a slot it reports
        self._boundary_ns = clock.epoch_ns
        self._tick_ns = clock.epoch_ns
        self._effects: list[Effect] = []
        self._for_local: deque[Report] = deque()  # reports that the local table has yet to answer
        self._now_ns = 0  # of the event in hand

    def _nic_agent(self) -> SwitchAgent:
        return SwitchAgent(self.name, Domain.of_nic(self.nic), self.clock, self.policy, background=self._background)

    # ---- The two methods of a state machine ----

    def next_deadline(self) -> int | None:
        """When to be called with Tick; None while there is nothing to send."""
        if not self.policy.paced or not any(flow.live for flow in self.flows.values()):
            return None
        boundary_ns = self._boundary_ns if self.policy.acts_at_boundaries else None
        local_ns = self.local.next_deadline() if self.isolated else None
        return min(
            deadline
            for deadline in (boundary_ns, self._tick_ns, self.policy.next_deadline(self), local_ns)
            if deadline is not None
        )

    def counts(self, now_ns: int) -> Collection[str]:
        """The jobs of which a Tick now should know what they have sent: all where the host reports, none where a slot
        begins and nothing else is due, else those that the policy waits for."""
        if now_ns >= self._tick_ns:
            return self.jobs.keys()
        if self.policy.acts_at_boundaries:
            return () if self._boundary_ns <= now_ns else self.jobs.keys()
        return self.policy.awaited(self, now_ns)

    def handle(self, event: HostInput, now_ns: int) -> list[Effect]:
        if isinstance(event, Together):
            return joined([effect for one in event.events for effect in self.handle(one, now_ns)])
        self._effects, self._now_ns = [], now_ns
        match event:
            case Progress():
                self._progress(event, now_ns)
            case FlowReady():
                self._ready(event, now_ns)
            case FlowDone():
                self._done(event.flow, now_ns)
            case IterationEnded():
                self._iteration_ended(event.job, now_ns)
            case Feedback():
                self.answers.heard(event.answers, now_ns)
                self.isolated = self._switch is None  # else the switch is back
                self._feedback(event, now_ns)
            case Tick():
                self._tick(now_ns)
            case JobJoined():
                self._join(event, now_ns)
            case JobLeft():
                self._leave(event.job, now_ns)
            case Welcomed():
                self._may_be_contended(now_ns)
                self._phase_ns = max(0, min(event.phase_ns, self.clock.length_ns - 1))
            case ClockSet():
                self._clock_set(event.by_ns, now_ns)
            case OthersSend():
                self.others_bps = min(max(0.0, event.load_bps), self.nic_bps)
                self.meets_foreign = event.foreign
                if event.foreign:
                    self._may_be_contended(now_ns)
            case SwitchLost():
                self._isolate()
                self.policy.on_slot(self, now_ns)
        self._ask_local(now_ns)
        return joined(self._effects)

    # ---- What the policy may do (policy.HostContext) ----

    @property
    def rtt_ns(self) -> int:
        return self.answers.rtt_ns

    def live_flows(self) -> list[FlowState]:
        return [flow for flow in self.flows.values() if flow.live]

    @property
    def slots_per_report(self) -> int:
        """While flows are live."""
        live = [flow for flow in self.flows.values() if flow.live]
        return REMIND_SLOTS if live and all(self.is_left_alone(flow) for flow in live) else 1

    def is_left_alone(self, flow: FlowState) -> bool:
        """Nobody competes with its job: it sends as it likes, without a claim."""
        return not flow.claimed and self.jobs[flow.id.job].uncontended

    def leaves_alone(self, job: str) -> bool:
        """The same of all its flows: when its bursts begin and end matters to nobody."""
        found = self.jobs.get(job)
        return found is not None and found.uncontended and not any(flow.claimed for flow in found.flows)

    def report(
        self,
        flows: Iterable[FlowState],
        now_ns: int,
        *,
        plans: bool = False,
        withdraw: Sequence[FlowState] = (),
        stalled: Sequence[FlowState] = (),
        leaving: Sequence[FlowState] = (),
    ) -> None:
        """Send one report with these flows' claims, with or without their plans."""
        slot, newcomers = self.clock.index(now_ns), False
        if not self._asking:
            self.answers.begin_asking(now_ns)
        claims: list[Claim] = []
        for flow in flows:
            newcomers |= flow.grant is None
            flow.claim()
            flow.claimed_slot = slot
            claim = Claim(
                flow=flow.id,
                path=self.policy.sees(flow.path),
                size_bytes=flow.spec.size_bytes,
                bid=self._bid(flow),
                sent_bytes=flow.volume_bytes,
                planned_bytes=self._planned_bytes(flow, now_ns) if plans else 0.0,
                # No host claims flows that stay within it; they are through as soon as their sender is.
                upstream=tuple(feeder for feeder in flow.spec.upstream if not feeder.local),
                downstream=tuple(after for after in flow.downstream if not after.local),
                plan_bps=flow.plan_bps if plans else (),
                promised_bytes=flow.promised_bytes,
                weight=self.jobs[flow.id.job].progress.weight,
                weighable=self.jobs[flow.id.job].weighable,
                unstoppable=self.jobs[flow.id.job].unstoppable and flow.has_begun,
            )
            claims.append(claim)
        gone = [flow for flow in withdraw if flow.withdraw(now_ns)]
        gone += [flow for flow in stalled if flow.withdraw(now_ns, stalled=True)]
        withdrawn = [Withdrawal(flow.id, self._withdrawn_bytes(flow)) for flow in gone]
        # Also those without a claim: the switch remembers them, and takes them for somebody who competes.
        withdrawn += [Withdrawal(flow.id, UNLIMITED, True) for flow in leaving if flow.claimed_slot >= 0]
        if not claims and not withdrawn:
            return
        self._number += 1
        report = Report(self.name, self._number, slot, tuple(claims), tuple(withdrawn), self.others_bps)
        if self._switch is not None:
            # Also while isolated: its answer shows that it is back.
            self.answers.asked(self._number, now_ns, newcomers=newcomers)
            self._effects.append(Send(self._switch, report))
        if self.isolated:
            self._for_local.append(report)

    @property
    def _asking(self) -> bool:
        """The switch owes answers: it counts claims of this host."""
        return any(flow.claimed for flow in self.flows.values())

    def limit(self, flow: FlowState, rate_bps: float, ceiling_bps: float, stands_for: float = 1.0) -> None:
        """Enforce, unless it is in force already: a change has a price in the kernel."""
        limit = Limit(flow.id, rate_bps, ceiling_bps, stands_for)
        if limit != flow.limit:
            if flow.live:
                flow.add_promise(self._now_ns)
            flow.limit = limit
            self._effects.append(limit)

    # ---- Events ----

    def _join(self, event: JobJoined, now_ns: int) -> None:
        # A job that joins again has been restarted, or sends other sizes: to its switch it has not left.
        before = {spec.flow: self.flows[spec.flow].claimed_slot for spec in event.flows if spec.flow in self.flows}
        self._leave(event.job, now_ns, staying={spec.flow for spec in event.flows})
        progress = JobProgress(now_ns, event.weight, event.iterations)
        job = self.jobs[event.job] = JobFlows(progress, weighable=event.weighable, unstoppable=event.unstoppable)
        downstream = dict(event.downstream)
        for spec in event.flows:
            path = self.topology.path(spec.flow.source, spec.flow.target, str(spec.flow))
            estimate = BandwidthEstimate(self.nic_bps)
            flow = FlowState(
                spec=spec,
                path=path,
                downstream=downstream.get(spec.flow, ()),
                bandwidth=estimate,
                stretches=Stretches(whole_slots=not self.policy.samples_stretches),
                claimed_slot=before.get(spec.flow, -1),
            )
            self.flows[spec.flow] = flow
            job.flows.append(flow)
        # Until a switch knows better, this host's own NIC is the bottleneck.
        sent_here = ((flow.spec.size_bytes, (self.nic.name,)) for flow in job.flows)
        job.progress.alone_comm_ns = float(alone_ns(sent_here, {self.nic.name: self.nic_bps}))

    def _leave(self, name: str, now_ns: int, staying: Collection[FlowId] = ()) -> None:
        job = self.jobs.pop(name, None)
        if job is not None:
            left = [flow for flow in job.flows if flow.id not in staying]
            self.report((), now_ns, withdraw=[flow for flow in job.flows if flow.id in staying], leaving=left)
            self._ask_local(now_ns)
            for flow in job.flows:
                self.limit(flow, UNLIMITED, UNLIMITED)
                del self.flows[flow.id]

    def _ready(self, event: FlowReady, now_ns: int) -> None:
        flow = self.flows.get(event.flow)
        if flow is None:
            return  # its job has left
        is_first = not any(other.live for other in self.flows.values())
        if flow.live and flow.iteration == event.iteration:
            flow.last_until(event.until_bytes)
            return
        flow.begin(event.iteration, now_ns, event.until_bytes)
        if is_first:
            self._arm(now_ns)
        else:
            self._report_in_time(now_ns)
        self.jobs[flow.id.job].progress.compute_ended(now_ns)
        self.policy.on_ready(self, flow, now_ns)
        if not flow.claimed and not self.is_left_alone(flow):
            self.answers.not_asked()

    def _done(self, flow_id: FlowId, now_ns: int) -> None:
        flow = self.flows.get(flow_id)
        if flow is None or not flow.live:
            return
        flow.observe(flow.until_bytes, now_ns)
        job = self.jobs[flow_id.job]
        self._credit(job, now_ns)
        flow.all_sent()
        if not flow.ends_iteration and not job.live:
            job.progress.computes_again(now_ns)  # at the end of an iteration IterationEnded says so
        self.policy.on_done(self, flow, now_ns)

    def _iteration_ended(self, name: str, now_ns: int) -> None:
        job = self.jobs.get(name)
        if job is not None:
            job.progress.iteration_ended(now_ns, 0.0)

    def _progress(self, event: Progress, now_ns: int) -> None:
        jobs, idle = set(), set(event.idle)
        for flow_id, sent_bytes in event.sent_bytes:
            flow = self.flows.get(flow_id)
            if flow is not None and flow.live:
                flow.observe(sent_bytes, now_ns, idle=flow_id in idle)
                jobs.add(flow_id.job)
        for name in sorted(jobs):
            self._credit(self.jobs[name], now_ns)

    def _feedback(self, feedback: Feedback, now_ns: int) -> None:
        """Of the switch or of the local table."""
        taken = []
        # Without a switch, or with one that is cut off from others, nobody knows who competes; and what foreign traffic
        # sends here is said in reports.
        knows = self.policy.leaves_uncontended and not (self.isolated or feedback.silent or self.meets_foreign)
        contended = {one for one in feedback.contended if one in self.flows}
        for grant in feedback.grants:
            flow = self.flows.get(grant.flow)
            if flow is None:
                continue
            if self.is_left_alone(flow) and not (knows and grant.uncontended):
                contended.add(grant.flow)  # the rest is said of a claim that has been withdrawn
            elif flow.live:
                flow.take_grant(grant, feedback.first_slot)
                flow.uncontended = knows and grant.uncontended
                self.jobs[grant.flow.job].progress.tell_alone(grant.alone_ns)
                taken.append(flow)
        if taken:
            self.policy.on_feedback(self, taken, now_ns)
        self._meet(contended, now_ns)

    def _meet(self, contended: Collection[FlowId], now_ns: int) -> None:
        """Somebody competes with these flows' jobs, and nobody has until now."""
        jobs = sorted({one.job for one in contended if self.jobs[one.job].uncontended})
        for one in contended:
            self.flows[one].uncontended = False
        self._limit_again(jobs)
        for flow in (flow for job in jobs for flow in self.jobs[job].flows if flow.live and not flow.claimed):
            flow.lose_grant()
            self.policy.on_ready(self, flow, now_ns)
        self._report_in_time(now_ns)

    def _tick(self, now_ns: int) -> None:
        if self.isolated and (due := self.local.next_deadline()) is not None and due <= now_ns:
            self._take_local(self.local.handle(Tick(), now_ns), now_ns)
            self._ask_local(now_ns)
        if now_ns >= self._boundary_ns:
            slot = self.clock.index(now_ns)
            for flow in self.flows.values():
                if flow.live:
                    flow.close_slot(slot - 1, self.clock.length_ns)
            if self._phase_ns:
                self.policy.on_boundary(self, now_ns)
                self._ask_local(now_ns)
        report_due = now_ns >= self._tick_ns
        self._boundary_ns = self.clock.next_start_ns(now_ns)
        if report_due:
            self._tick_ns = self._next_report_ns(now_ns)
            silent_ns = now_ns - self.answers.heard_ns if self._asking else 0
            if not self.isolated and silent_ns > SILENCE_SLOTS * self.clock.length_ns:
                self._isolate()
            self.policy.on_slot(self, now_ns)
            self._ask_local(now_ns)
        self.policy.on_tick(self, now_ns)

    def _arm(self, now_ns: int) -> None:
        """The next slot's beginning, and the next time to report, which is a phase later than some slot's."""
        self._boundary_ns = self.clock.next_start_ns(now_ns)
        self._tick_ns = self._next_report_ns(now_ns)

    def _next_report_ns(self, now_ns: int) -> int:
        later_ns = (self.slots_per_report - 1) * self.clock.length_ns
        return self.clock.next_start_ns(now_ns - self._phase_ns) + self._phase_ns + later_ns

    def _report_in_time(self, now_ns: int) -> None:
        """Sooner than was thought, if somebody competes now."""
        self._tick_ns = min(self._tick_ns, self._next_report_ns(now_ns))

    def _clock_set(self, by_ns: int, now_ns: int) -> None:
        """The host follows a switch with another time: deadlines kept from before would come too early, or too late."""
        for job in self.jobs.values():
            job.progress.clock_set(by_ns)
        for flow in self.flows.values():
            flow.clock_set(by_ns)
        self.answers.clock_set(by_ns)
        self._arm(now_ns)

    def _isolate(self) -> None:
        """Go on with the NIC's table alone; the reports to the switch go on as well, so that it can return."""
        self._may_be_contended(self._now_ns)
        if not self.isolated:
            self.isolated = True
            self.local = self._nic_agent()
            for flow in self.live_flows():
                flow.lose_grant()

    def _may_be_contended(self, now_ns: int) -> None:
        """Nobody says otherwise any more."""
        jobs = [name for name, job in self.jobs.items() if job.uncontended]
        for flow in self.flows.values():
            flow.uncontended = False
        self._limit_again(jobs)
        self._report_in_time(now_ns)

    def _limit_again(self, jobs: Iterable[str]) -> None:
        """What their next bursts send before anybody knows of them comes under a limit; a live flow gets its own."""
        for flow in (flow for name in jobs for flow in self.jobs[name].flows if not flow.live and flow.limit.lifted):
            self.limit(flow, FLOOR_BPS, self.nic_bps)

    def _ask_local(self, now_ns: int) -> None:
        """What the policy reports in its turn the local table answers after it, if no switch does. Its answers need no
        wire, and may make the policy report again: one question after the other."""
        while self._for_local:
            report = self._for_local.popleft()
            nic_only = tuple(claim._replace(path=(self.nic.name,)) for claim in report.claims)
            self._take_local(self.local.handle(replace(report, claims=nic_only), now_ns), now_ns)

    def _take_local(self, effects: Iterable[Effect], now_ns: int) -> None:
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Feedback):
                self._feedback(effect.message, now_ns)

    # ---- What reports say, and progress ----

    def _bid(self, flow: FlowState) -> Bid:
        job = self.jobs[flow.id.job]
        state = JobState(job.progress, job.remaining_share, flow.ready_ns, flow.has_share, job.sent_iterations)
        return self.policy.bid(state)

    def _withdrawn_bytes(self, flow: FlowState) -> float:
        """A job that is left alone says no more how far it is: no flow need wait for what is said now."""
        job = self.jobs.get(flow.id.job)
        return UNLIMITED if job is not None and job.uncontended else flow.withdrawn_bytes

    def _planned_bytes(self, flow: FlowState, now_ns: int) -> float:
        """In what is left of this slot."""
        planned_bps = flow.planned_bps(self.clock.index(now_ns))
        return min(flow.remaining_bytes, transfer_bytes(planned_bps, self.clock.remaining_ns(now_ns)))

    def _credit(self, job: JobFlows, now_ns: int) -> None:
        fresh = 0.0
        for flow in job.flows:
            fresh += flow.sent_bytes - flow.counted_bytes
            flow.counted_bytes = flow.sent_bytes
        job.progress.credit(now_ns, fresh, job.size_bytes, stalled=job.stalled)

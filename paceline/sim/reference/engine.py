"""The reference engine: jobs, agents and the fluid network on one clock.

Everything that happens is an entry (time, sequence, action) in a heap; equal times run in the order they were
scheduled, so a run depends on nothing but the scenario, the policy and the seed. Agents are driven exactly as the
daemons drive them: read the counters, hand over the event, perform the effects, re-arm the timer.

Control messages take `latency_ns` each way between a host and its switch and between switches, and keep their order.
"""

import heapq
import random
from array import array
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter_ns

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.host.joining import together
from paceline.flowcore.messages.events import (
    Effect,
    FlowDone,
    FlowReady,
    HostEvent,
    HostInput,
    IterationEnded,
    JobJoined,
    JobLeft,
    Limit,
    Message,
    Progress,
    Send,
    SwitchEvent,
    Tick,
)
from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.background import FAIR
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.scenario import CrossTraffic, Scenario
from paceline.flowcore.model.units import bps_from_gbps, ns_from_ms, ns_from_s
from paceline.flowcore.policy import policy_named
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.sim.jobs import TrainingJob, Worker
from paceline.sim.parameters import DEFAULT_LATENCY_MS
from paceline.sim.recording import Recording
from paceline.sim.reference.network import FluidNetwork

# (now, machine, event, effects): what the journal of a daemon records.
JournalSink = Callable[[int, str, HostInput | SwitchEvent, list[Effect]], None]


class Simulation:
    def __init__(
        self,
        scenario: Scenario,
        policy: str,
        seed: int,
        *,
        latency_ms: float = DEFAULT_LATENCY_MS,
        local: bool = False,
        recording: Recording | None = None,
        journal: JournalSink | None = None,
        hangs_s: Mapping[str, float] | None = None,
        background: str = FAIR,
    ) -> None:
        """`hangs_s`: jobs whose bytes stop moving at that time, for ever. `background`: what is done about cross
        traffic (model/background.py); where there is some, a flow can count for several."""
        self.scenario = scenario
        self.now_ns = 0
        self.end_ns = None if scenario.duration_s is None else ns_from_s(scenario.duration_s)
        self.decisions_ns: array[int] = array("q")  # eight bytes each: an hour of them is nothing
        self.jobs = {spec.name: TrainingJob(spec, seed) for spec in scenario.jobs}
        self.running = set(self.jobs)
        self._latency_ns = ns_from_ms(latency_ms)
        self._recording, self._journal = recording, journal
        topology, clock = scenario.topology, scenario.slots.clock()
        chosen = policy_named(policy)
        self.network = FluidNetwork(
            topology,
            start_after=chosen.start_after,
            contention=chosen.contention,
            aggressiveness=chosen.aggressiveness,
        )
        local = local or chosen.host_only
        busy = dict.fromkeys(host for job in self.jobs.values() for host in job.hosts)
        self.hosts = {
            host: HostAgent(host, topology, clock, chosen, None if local else topology.switch_of[host], background)
            for host in busy
        }
        responsible = domains(topology) if chosen.paced else {}
        max_weight = max((job.weight for job in scenario.jobs), default=1.0)
        self.switches = {
            name: SwitchAgent(name, domain, clock, chosen, max_weight=max_weight, background=background)
            for name, domain in responsible.items()
        }
        self._armed: dict[str, int] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._live_on: dict[str, dict[FlowId, None]] = {host: {} for host in self.hosts}
        for job in self.jobs.values():
            self._at(ns_from_s(job.spec.start_s), partial(self._start, job))
        for job_name, hangs_s_at in (hangs_s or {}).items():
            self._at(ns_from_s(hangs_s_at), partial(self.network.hang, job_name))
        for number, bursts in enumerate(scenario.cross_traffic):
            self._cross(bursts, number, random.Random(f"{seed}/cross/{number}"))

    # ---- The loop ----

    def run(self, progress: Callable[[float], None] | None = None) -> None:
        """Until every job is through or the scenario's duration is over; `progress` gets simulated seconds."""
        reported_ns = 0
        while self.running:
            change_ns = self.network.next_change_ns()
            self._record()
            event_ns = self._heap[0][0] if self._heap else None
            if change_ns is None and event_ns is None:
                break
            next_ns = min(time for time in (change_ns, event_ns) if time is not None)
            if self.end_ns is not None and next_ns > self.end_ns:
                self.network.advance(self.end_ns)
                self.now_ns = self.end_ns
                break
            self.now_ns = next_ns
            self.network.advance(next_ns)
            if change_ns == next_ns:
                self.network.touch()
                for flow in self.network.finished():
                    self._flow_done(flow)
            while self._heap and self._heap[0][0] <= next_ns:
                heapq.heappop(self._heap)[2]()
            if progress and next_ns - reported_ns > 100_000_000:
                reported_ns = next_ns
                progress(next_ns / 1e9)

    def _at(self, time_ns: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time_ns, self._sequence, action))

    def _record(self) -> None:
        if self._recording is not None:
            rates = dict(self.network.rates())
            if not self._recording.rates_bps or rates != self._recording.rates_bps[-1]:
                self._recording.times_ns.append(self.now_ns)
                self._recording.rates_bps.append(rates)

    # ---- Jobs ----

    def _start(self, job: TrainingJob) -> None:
        self.network.add(job.flows, job.spec.bursts)
        for host in job.hosts:
            flows = tuple(f for f in job.flows if f.flow.source == host and not f.flow.local)
            feeds = tuple((f.flow, job.downstream[f.flow]) for f in flows)
            weighable = bool(self.scenario.cross_traffic)
            self._tell(host, JobJoined(job.spec.name, flows, feeds, job.spec.weight, job.goal or 0, weighable))
        for worker in job.workers.values():
            self._compute(job, worker)

    def _compute(self, job: TrainingJob, worker: Worker) -> None:
        if job.spec.iterations is not None and worker.iteration >= job.spec.iterations:
            return
        before_ns, beside_ns = job.piece_ns(worker)
        self._at(self.now_ns + before_ns, lambda: self._computed(job, worker, beside_ns))

    def _computed(self, job: TrainingJob, worker: Worker, beside_ns: int) -> None:
        ready: dict[str, list[HostEvent]] = {}
        for flow, iteration in list(job.computed(worker)):
            until_bytes = job.until_bytes(flow)
            self.network.start(flow, until_bytes)
            if not flow.local:
                self._live_on[flow.source][flow] = None
                ready.setdefault(flow.source, []).append(FlowReady(flow, iteration, until_bytes))
        for host, events in ready.items():
            self._tell(host, together(events))
        if worker.computes_beside:
            self._at(self.now_ns + beside_ns, lambda: self._computed_beside(job, worker))

    def _computed_beside(self, job: TrainingJob, worker: Worker) -> None:
        if job.computed_beside(worker, self.now_ns):
            self._goes_on(job, worker)
            self._leave_if_finished(job)

    def _flow_done(self, flow: FlowId) -> None:
        job = self.jobs[flow.job]  # cross traffic ends by the clock, never here
        if not flow.local:
            del self._live_on[flow.source][flow]
            self._tell(flow.source, FlowDone(flow))
        for through in list(job.flow_done(flow, self.now_ns)):
            if isinstance(through, Worker):
                self._goes_on(job, through)
            else:
                self._tell(through, IterationEnded(flow.job))
        self._leave_if_finished(job)

    def _goes_on(self, job: TrainingJob, worker: Worker) -> None:
        if worker.burst == 0:
            self._tell(worker.host, IterationEnded(job.spec.name))
        self._compute(job, worker)

    def _leave_if_finished(self, job: TrainingJob) -> None:
        name = job.spec.name
        if job.finished and name in self.running:
            self.running.discard(name)
            for host in job.hosts:
                self._tell(host, JobLeft(name))
            self.network.remove(spec.flow for spec in job.flows)

    # ---- Cross traffic ----

    @property
    def others_bytes(self) -> tuple[float, ...]:
        """What each flow of cross traffic has sent."""
        return tuple(one.sent_bytes for flow, one in self.network.channels.items() if flow.role is Role.OTHER)

    def _cross(self, bursts: CrossTraffic, number: int, draws: random.Random) -> None:
        flow = FlowId(f"cross traffic {number}", bursts.source, bursts.target, Role.OTHER)
        self.network.add([FlowSpec(flow, float("inf"), (), float("inf"))])
        self.network.cap(flow, bps_from_gbps(bursts.gbps))

        def burst() -> None:
            self.network.start(flow)
            lasts_ns = min(ns_from_s(draws.uniform(*bursts.lasts_s)), ns_from_s(bursts.every_s))
            self._at(self.now_ns + lasts_ns, lambda: self.network.stop(flow))
            self._at(self.now_ns + ns_from_s(bursts.every_s), burst)

        self._at(0, burst)

    # ---- Agents ----

    def _tell(self, host: str, event: HostInput) -> None:
        """Hand an event to a host's agent, counters first, as its daemon would."""
        agent = self.hosts[host]
        live = self._live_on[host]
        if live and agent.policy.paced:
            counters = tuple((flow, self.network.sent_in_iteration(flow)) for flow in live)
            self._perform(host, Progress(counters), agent.handle(Progress(counters), self.now_ns))
        started_ns = perf_counter_ns()
        effects = agent.handle(event, self.now_ns)
        if isinstance(event, Tick | Feedback):
            self.decisions_ns.append(perf_counter_ns() - started_ns)
        self._perform(host, event, effects)
        self._arm(host, agent)

    def _tell_switch(self, name: str, event: SwitchEvent) -> None:
        agent = self.switches[name]
        self._perform(name, event, agent.handle(event, self.now_ns))
        self._arm(name, agent)

    def _perform(self, actor: str, event: HostInput | SwitchEvent, effects: list[Effect]) -> None:
        if self._journal is not None:
            self._journal(self.now_ns, actor, event, effects)
        for effect in effects:
            match effect:
                case Limit(flow, rate_bps, ceiling_bps, stands_for):
                    if flow in self.network.channels:
                        self.network.limit(flow, rate_bps, ceiling_bps, stands_for)
                case Send(to, message):
                    self._at(self.now_ns + self._latency_ns, partial(self._deliver, to, message))

    def _deliver(self, to: str, message: Message) -> None:
        if to in self.switches:
            self._tell_switch(to, message)
        elif isinstance(message, Feedback):  # nothing else is addressed to a host
            self._tell(to, message)

    def _arm(self, name: str, agent: HostAgent | SwitchAgent) -> None:
        deadline_ns = agent.next_deadline()
        if deadline_ns is None:
            self._armed.pop(name, None)
            return
        deadline_ns = max(deadline_ns, self.now_ns)
        if self._armed.get(name) != deadline_ns:
            self._armed[name] = deadline_ns
            self._at(deadline_ns, lambda: self._ring(name, deadline_ns))

    def _ring(self, name: str, deadline_ns: int) -> None:
        if self._armed.get(name) != deadline_ns:
            return  # re-armed since
        del self._armed[name]
        if name in self.switches:
            self._tell_switch(name, Tick())
        else:
            self._tell(name, Tick())

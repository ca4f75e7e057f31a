"""Policies that no other control runs (engine.py): the host and switch agents of flowcore themselves.

They are driven as the reference engine drives them. Exact, and as slow as the agents are: per flow and slot, not per
step. Messages and timers of the same time come in the order in which they were sent and armed: all hosts report at the
start of a slot, and the first report gets the slots.
"""

import heapq
from array import array
from collections.abc import Sequence
from itertools import count
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
from paceline.flowcore.model.domain import domains
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.sim.array.control import NEVER_NS, ControlContext, NetworkJob


class AgentControl:
    def __init__(self, context: ControlContext) -> None:
        self._context, self._network = context, context.network
        self._due: list[tuple[int, int, str, Message | Tick]] = []  # when, sequence, host or switch, what
        self._sequence = count()
        self.decisions_ns: array[int] = array("q")
        self._switches = {
            name: SwitchAgent(name, domain, context.clock, context.policy, background=context.background)
            for name, domain in domains(context.network.topology).items()
        }
        self._hosts: dict[str, HostAgent] = {}
        self._live_on: dict[str, dict[int, None]] = {}  # by host: the flows that have bytes to send
        self._armed: dict[str, int] = {}

    # ---- What happens ----

    def joined(self, job: NetworkJob, now_ns: int) -> None:
        for host in job.training.hosts:
            if host not in self._hosts:
                context = self._context
                switch = None if context.policy.host_only else self._network.topology.switch_of[host]
                known = (host, self._network.topology, context.clock, context.policy, switch, context.background)
                self._hosts[host] = HostAgent(*known)
                self._live_on[host] = {}
            flows = tuple(f for f in job.training.flows if f.flow.source == host and not f.flow.local)
            feeds = tuple((f.flow, job.training.downstream[f.flow]) for f in flows)
            facts = (job.training.spec.weight, job.training.goal or 0, self._context.cross_traffic)
            self._tell(host, JobJoined(job.name, flows, feeds, *facts), now_ns)

    def left(self, job: NetworkJob, now_ns: int) -> None:
        for number in job.numbers.tolist():  # of a job that is stopped, some may be under way
            self._live_on[self._network.flow(number).source].pop(number, None)
        for host in job.training.hosts:
            self._tell(host, JobLeft(job.name), now_ns)

    def ready(self, job: NetworkJob, numbers: list[int], iteration: int, now_ns: int) -> None:
        events: dict[str, list[HostEvent]] = {}
        for number in numbers:
            flow = self._network.flow(number)
            self._live_on[flow.source][number] = None
            events.setdefault(flow.source, []).append(FlowReady(flow, iteration))
        for host, of_host in events.items():
            self._tell(host, together(of_host), now_ns)

    def done(self, job: NetworkJob, number: int, now_ns: int) -> None:
        flow = self._network.flow(number)
        del self._live_on[flow.source][number]
        self._tell(flow.source, FlowDone(flow), now_ns)

    def iteration_ended(self, job: NetworkJob, host: str, now_ns: int) -> None:
        self._tell(host, IterationEnded(job.name), now_ns)

    def next_ns(self) -> int:
        """Rates change when a message arrives, so a step ends there: plans are made to end with their slot."""
        return self._due[0][0] if self._due else NEVER_NS

    def run(self, now_ns: int, marked: Sequence[int]) -> None:
        while self._due and self._due[0][0] <= now_ns:
            due_ns, _, to, event = heapq.heappop(self._due)
            if isinstance(event, Tick):
                if self._armed.get(to) != due_ns:
                    continue  # re-armed since
                del self._armed[to]
            if to in self._switches:
                self._tell_switch(to, event, now_ns)
            elif isinstance(event, Feedback | Tick):  # nothing else is addressed to a host
                self._tell(to, event, now_ns)

    def happen(self, until_ns: int, sequence: int) -> None:
        """Its events come with `run`."""

    # ---- Agents ----

    def _tell(self, host: str, event: HostInput, now_ns: int) -> None:
        agent, network = self._hosts[host], self._network
        live = self._live_on[host]
        if live:
            sent, goal = network.cells.sent, network.cells.goal
            counters = tuple((network.flow(n), sent[n] - goal[n] + float(network.size[n])) for n in live)
            self._perform(agent.handle(Progress(counters), now_ns), now_ns)
        started_ns = perf_counter_ns()
        effects = agent.handle(event, now_ns)
        if isinstance(event, Tick | Feedback):
            self.decisions_ns.append(perf_counter_ns() - started_ns)
        self._perform(effects, now_ns)
        self._arm(host, agent, now_ns)

    def _tell_switch(self, name: str, event: SwitchEvent, now_ns: int) -> None:
        agent = self._switches[name]
        self._perform(agent.handle(event, now_ns), now_ns)
        self._arm(name, agent, now_ns)

    def _perform(self, effects: list[Effect], now_ns: int) -> None:
        for effect in effects:
            match effect:
                case Limit(flow, rate_bps, ceiling_bps, stands_for):
                    if flow in self._network.numbers:
                        self._network.limit(self._network.numbers[flow], rate_bps, ceiling_bps, stands_for)
                case Send(to, message):
                    self._at(now_ns + self._context.latency_ns, to, message)

    def _arm(self, name: str, agent: HostAgent | SwitchAgent, now_ns: int) -> None:
        due_ns = agent.next_deadline()
        if due_ns is None:
            self._armed.pop(name, None)
            return
        due_ns = max(due_ns, now_ns)
        if self._armed.get(name) != due_ns:
            self._armed[name] = due_ns
            self._at(due_ns, name, Tick())

    def _at(self, due_ns: int, to: str, event: Message | Tick) -> None:
        heapq.heappush(self._due, (due_ns, next(self._sequence), to, event))

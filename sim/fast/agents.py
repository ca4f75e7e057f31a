"""Any other policy: the host and switch agents of flowcore themselves, driven as sim.engine drives them.

Exact, and as slow as the agents are: per flow and slot, not per step.
"""

import heapq
from array import array
from itertools import count
from time import perf_counter_ns

from flowcore.domain import domains
from flowcore.host import HostAgent
from flowcore.messages import (
    Effect,
    Feedback,
    FlowDone,
    FlowReady,
    HostEvent,
    IterationEnded,
    JobJoined,
    JobLeft,
    Message,
    Progress,
    Send,
    SetRate,
    SwitchEvent,
    Tick,
)
from flowcore.switch import SwitchAgent
from sim.fast.control import NEVER_NS, Member, Surroundings


class AgentControl:
    def __init__(self, around: Surroundings) -> None:
        self._around, self._network = around, around.network
        self._messages: list[tuple[int, int, str, Message]] = []  # on their way: due, sequence, to whom
        self._sequence = count()
        self.decisions_ns = array("q")
        self._switches = {
            name: SwitchAgent(name, domain, around.clock, around.policy.arbiter)
            for name, domain in domains(around.network.topology).items()
        }
        self._hosts: dict[str, HostAgent] = {}
        self._live_on: dict[str, dict[int, None]] = {}
        self._deadlines: dict[str, int] = {}

    # ---- What happens ----

    def joined(self, member: Member, now_ns: int) -> None:
        job = member.job
        for host in job.hosts:
            if host not in self._hosts:
                around = self._around
                switch = None if around.policy.host_only else self._network.topology.switch_of[host]
                self._hosts[host] = HostAgent(host, self._network.topology, around.clock, around.policy, switch)
                self._live_on[host] = {}
            flows = tuple(f for f in job.flows if f.flow.source == host and not f.flow.local)
            feeds = tuple((f.flow, job.followers[f.flow]) for f in flows)
            self._tell(host, JobJoined(job.spec.name, flows, feeds), now_ns)

    def left(self, member: Member, now_ns: int) -> None:
        for number in member.numbers.tolist():  # of a job that is stopped, some may be under way
            self._live_on[self._network.flow(number).source].pop(number, None)
        for host in member.job.hosts:
            self._tell(host, JobLeft(member.job.spec.name), now_ns)

    def ready(self, member: Member, numbers: list[int], iteration: int, now_ns: int) -> None:
        for number in numbers:
            flow = self._network.flow(number)
            self._live_on[flow.source][number] = None
            self._tell(flow.source, FlowReady(flow, iteration), now_ns)

    def done(self, member: Member, number: int, now_ns: int) -> None:
        flow = self._network.flow(number)
        del self._live_on[flow.source][number]
        self._tell(flow.source, FlowDone(flow), now_ns)

    def iteration_ended(self, member: Member, host: str, now_ns: int) -> None:
        self._tell(host, IterationEnded(member.job.spec.name), now_ns)

    def next_ns(self) -> int:
        """Rates change when a message arrives, so a step ends there: plans are made to end with their slot."""
        return min(self._messages[0][0] if self._messages else NEVER_NS, *self._deadlines.values(), NEVER_NS)

    def run(self, now_ns: int) -> None:
        while self._messages and self._messages[0][0] <= now_ns:
            _, _, to, message = heapq.heappop(self._messages)
            if to in self._switches:
                self._tell_switch(to, message, now_ns)
            elif isinstance(message, Feedback):
                self._tell(to, message, now_ns)
        for name in [name for name, due_ns in self._deadlines.items() if due_ns <= now_ns]:
            if name in self._switches:
                self._tell_switch(name, Tick(), now_ns)
            else:
                self._tell(name, Tick(), now_ns)

    # ---- Agents ----

    def _tell(self, host: str, event: HostEvent, now_ns: int) -> None:
        agent, network = self._hosts[host], self._network
        live = self._live_on[host]
        if live:
            counters = tuple(
                (network.flow(n), float(network.sent[n] - network.goal[n] + network.size[n])) for n in live
            )
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
                case SetRate(flow, rate_bps, ceiling_bps):
                    if flow in self._network.numbers:
                        self._network.limit(self._network.numbers[flow], rate_bps, ceiling_bps)
                case Send(to, message):
                    due_ns = now_ns + self._around.latency_ns
                    heapq.heappush(self._messages, (due_ns, next(self._sequence), to, message))

    def _arm(self, name: str, agent: HostAgent | SwitchAgent, now_ns: int) -> None:
        due_ns = agent.next_deadline()
        if due_ns is None:
            self._deadlines.pop(name, None)
        else:
            self._deadlines[name] = max(due_ns, now_ns)

"""A host as hostd drives it (hostd/daemon.py, hostd/driver.py): counters first, then events, then effects.

    what its jobs' bytes do ──▶ HostAgent ──▶ limits in force, reports to the stream

A daemon that does nothing for PATIENCE_SLOTS loses its lease: the guardian lifts its limits, and the daemon sets them
again about a second after it woke. One that is killed leaves no limit behind.
"""

from collections.abc import Callable, Container, Iterable

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.host.joining import together
from paceline.flowcore.messages.events import (
    ClockSet,
    Effect,
    HostEvent,
    Limit,
    Progress,
    Send,
    SwitchLost,
    Tick,
    Welcomed,
)
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.policy import POLICIES
from paceline.sim.faults.node_clock import NodeClock
from paceline.sim.faults.surroundings import Surroundings
from paceline.sim.lies.telling import told

PATIENCE_SLOTS = 5  # hostd/safety/lease.py
RENEW_SLOTS = 17  # hostd/daemon.py: HOUSEKEEPING_S
WAKE_NS = 100_000  # no daemon wakes up sooner after it has gone to sleep


class HostShell:
    def __init__(self, world: Surroundings, name: str, offset_ns: int) -> None:
        self.name = name
        self.clock = NodeClock(offset_ns)
        self.in_force: dict[FlowId, Limit] = {}  # in the kernel
        self.lies: dict[str, int] = {}  # that it tells now, and how often each began
        self.doubles = 0  # its reports arrive twice, as long as this is above 0
        self.agent: HostAgent
        self.switch = world.topology.switch_of[name]
        self._world = world
        self._leased = True
        self._timer = 0  # only the last one set counts
        self._suspensions, self._suspended_ns = 0, 0  # how many last now, and since when
        self.begin()

    def begin(self) -> None:
        """The daemon starts."""
        policy = POLICIES[self._world.policy]()
        self.agent = HostAgent(self.name, self._world.topology, self._world.slots, policy, self.switch)
        self._leased = True

    def now_ns(self) -> int:
        return self.clock.now_ns(self._world.now_ns)

    def suspend(self, now_ns: int) -> None:
        """Its clock stands still; it may be suspended again meanwhile."""
        if self._suspensions == 0:
            self._suspended_ns = now_ns
        self._suspensions += 1

    def resume(self, now_ns: int) -> None:
        self._suspensions -= 1
        if self._suspensions == 0:
            self.clock.offset_ns -= now_ns - self._suspended_ns

    # ---- What happens ----

    def take(self, events: Iterable[HostEvent], concerned: Container[str] = ()) -> None:
        happened = (*self._progress(concerned), *events)
        effects = self.agent.handle(together(happened), self.now_ns())
        for event in happened:
            self._world.note(self.name, event)
        self._perform(effects)
        self.arm()

    def feedback(self, feedback: Feedback, switch_offset_ns: int) -> None:
        self._follow(switch_offset_ns)
        self.take([feedback], {grant.flow.job for grant in feedback.grants})

    def connected(self, switch_offset_ns: int, phase_ns: int) -> None:
        self._follow(switch_offset_ns)
        self.take([Welcomed(phase_ns)])

    def disconnected(self) -> None:
        self.take([SwitchLost()], self.agent.jobs)

    def _follow(self, switch_offset_ns: int) -> None:
        if step_ns := self.clock.follow(switch_offset_ns):
            self.take([ClockSet(step_ns)])

    def _progress(self, concerned: Container[str]) -> list[HostEvent]:
        counters, idle = self._world.counters(self.name, concerned)
        return [Progress(counters, idle)] if counters else []

    # ---- What is done about it ----

    def _perform(self, effects: Iterable[Effect]) -> None:
        limits: list[Limit] = []
        for effect in effects:
            match effect:
                case Limit():
                    limits.append(effect)
                case Send(_, Report() as report):
                    self._report(report)
        for flow in self.in_force.keys() - self.agent.flows.keys():  # their sockets are let go
            self._set(Limit(flow, UNLIMITED, UNLIMITED))
        if self._leased:
            for limit in limits:
                if limit.flow in self.agent.flows:
                    self._set(limit)

    def _report(self, report: Report) -> None:
        for lie in self.lies:
            report = told(report, lie, self._world.topology)
        for _ in range(2 if self.doubles else 1):
            self._world.send_report(self.name, self.switch, report)

    def _set(self, limit: Limit) -> None:
        if limit.ceiling_bps == UNLIMITED:
            self.in_force.pop(limit.flow, None)
        else:
            self.in_force[limit.flow] = limit
        self._world.limit(limit)

    # ---- The lease ----

    def lift_all(self) -> None:
        """By the guardian."""
        self._leased = False
        for flow in list(self.in_force):
            self._set(Limit(flow, UNLIMITED, UNLIMITED))

    def woke(self) -> None:
        """After a stall. What is due comes by itself; a lease that was lost is taken again at the next housekeeping."""
        if not self._leased:
            agent = self.agent
            self._world.after(
                RENEW_SLOTS * self._world.slots.length_ns, self._world.doing(self.name, self._renew(agent))
            )
        self.arm()

    def _renew(self, agent: HostAgent) -> Callable[[], None]:
        def set_again() -> None:
            if self.agent is agent:
                self._leased = True
                for flow in agent.flows.values():
                    self._set(flow.limit)

        return set_again

    # ---- The timer ----

    def arm(self) -> None:
        deadline_ns = self.agent.next_deadline()
        self._timer += 1
        if deadline_ns is None:
            return
        timer, now_ns = self._timer, self.now_ns()
        # The daemon looks at the beginning of every slot as well: a deadline that a step has put far ahead is not lost.
        delay_ns = min(deadline_ns - now_ns, self._world.slots.next_start_ns(now_ns) - now_ns)
        self._world.after(max(WAKE_NS, delay_ns), self._world.doing(self.name, lambda: self._expired(timer)))

    def _expired(self, timer: int) -> None:
        if timer != self._timer:
            return
        now_ns, deadline_ns = self.now_ns(), self.agent.next_deadline()
        if deadline_ns is not None and deadline_ns <= now_ns:
            self.take([Tick()], self.agent.counts(now_ns))
        else:
            self.arm()

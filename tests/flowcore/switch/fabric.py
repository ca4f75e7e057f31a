"""Every switch of a topology; messages arrive at once."""

from collections import deque
from dataclasses import dataclass, field

from paceline.flowcore.messages.events import Effect, Send, SwitchEvent, Tick
from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology, star, tree
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent

SLOT_NS = 60_000_000
HORIZON = 10
CLOCK = SlotClock(SLOT_NS, HORIZON)
GBPS = 1e9
STAR = star(4, 1.0)
TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))


def flow(job: str, source: str, target: str, role: Role = Role.RING) -> FlowId:
    return FlowId(job, source, target, role)


A, B, C = flow("a", "h0", "h1"), flow("b", "h0", "h2"), flow("c", "h3", "h1")
FAR = flow("far", "h0", "h4")  # in the tree: tor0 - edge0 - agg - edge1 - tor2


def claim(
    topology: Topology,
    which: FlowId,
    plan_bps: tuple[float, ...] = (),
    *,
    urgency: float = 1.0,
    size_bytes: float = 25e6,
    sent_bytes: float = 0.0,
    planned_bytes: float = 0.0,
    upstream: tuple[FlowId, ...] = (),
    downstream: tuple[FlowId, ...] = (),
) -> Claim:
    return Claim(
        flow=which,
        path=topology.path(which.source, which.target, str(which)),
        size_bytes=size_bytes,
        bid=Bid(urgency, 1e8, 1e8),
        sent_bytes=sent_bytes,
        planned_bytes=planned_bytes,
        upstream=upstream,
        downstream=downstream,
        plan_bps=plan_bps,
    )


@dataclass
class Fabric:
    """Every switch of a topology. Messages arrive at once, those to dead switches not at all."""

    topology: Topology
    policy: str
    now_ns: int = 0
    number: int = 0  # of the last report
    inbox: dict[str, list[Feedback]] = field(default_factory=dict)  # what hosts hear because of the last event
    heard: list[tuple[str, Feedback]] = field(default_factory=list)  # and because of all events
    behind_ns: dict[str, int] = field(default_factory=dict)  # clocks, by switch
    dead: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.switches = {name: self.fresh(name) for name in self.topology.switches}

    def fresh(self, name: str) -> SwitchAgent:
        return SwitchAgent(name, domains(self.topology)[name], CLOCK, POLICIES[self.policy]())

    @property
    def slot(self) -> int:
        return CLOCK.index(self.now_ns)

    def report(
        self, host: str, *claims: Claim, withdrawn: tuple[FlowId, ...] = (), left: tuple[FlowId, ...] = ()
    ) -> dict[FlowId, Grant]:
        """Everything hosts hear because of this report; the latest grant of each flow."""
        gone = tuple(Withdrawal(which, 25e6) for which in withdrawn)
        gone += tuple(Withdrawal(which, UNLIMITED, True) for which in left)
        self.number += 1
        report = Report(sender=host, number=self.number, first_slot=self.slot, claims=claims, withdrawn=gone)
        return self.tell(self.topology.switch_of[host], report)

    def tell(self, switch: str, event: SwitchEvent) -> dict[FlowId, Grant]:
        self.inbox = {}
        queue = deque(self.handle(switch, event))
        while queue:
            effect = queue.popleft()
            assert isinstance(effect, Send)
            if effect.to in self.switches:
                queue.extend(self.handle(effect.to, effect.message))
            else:
                assert isinstance(effect.message, Feedback)
                self.inbox.setdefault(effect.to, []).append(effect.message)
                self.heard.append((effect.to, effect.message))
        received = (feedback for got in self.inbox.values() for feedback in got)
        return {grant.flow: grant for feedback in received for grant in feedback.grants}

    def handle(self, switch: str, event: SwitchEvent) -> list[Effect]:
        if switch in self.dead:
            return []
        return self.switches[switch].handle(event, self.now_ns - self.behind_ns.get(switch, 0))

    def wait_until(self, now_ns: int) -> dict[FlowId, Grant]:
        """Ticks as they fall due; what was pushed meanwhile."""
        pushed: dict[FlowId, Grant] = {}
        while True:
            due = {name: agent.next_deadline() for name, agent in self.switches.items() if name not in self.dead}
            soonest = min((d for d in due.values() if d is not None), default=None)
            if soonest is None or soonest > now_ns:
                self.now_ns = now_ns
                return pushed
            self.now_ns = soonest
            for name, deadline in due.items():
                if deadline == soonest:
                    pushed |= self.tell(name, Tick())

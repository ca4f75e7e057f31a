"""A HostAgent alone: the switch is a script, the network a constant rate."""

from dataclasses import dataclass, field

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import (
    Effect,
    FlowDone,
    FlowReady,
    HostEvent,
    JobJoined,
    Limit,
    Progress,
    Send,
    Tick,
)
from paceline.flowcore.messages.reports import Feedback, Grant, Report
from paceline.flowcore.model.patterns import FlowId, downstream_of, flows_of
from paceline.flowcore.model.scenario import JobSpec, Pattern
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy import policy_named

MS = 1_000_000
SLOT_NS = 60 * MS
RTT_NS = 4 * MS
HORIZON = 10
GBPS = 1e9
FLOOR_BPS = 1e6
INF = float("inf")
TOPOLOGY = star(3, 1.0)
SIZE_BYTES = 25e6  # 200 ms at line rate


def ring(name: str, *workers: str) -> JobSpec:
    """Each worker sends 25 MB to the next."""
    members = len(workers)
    model_mb = 25.0 * members / (2 * (members - 1))
    return JobSpec(name, Pattern.ALLREDUCE, workers, (), model_mb, 0.2, None, 0.0, 0.0)


@dataclass
class Host:
    """An agent on h0, the clock, and the counters of its flows: they send as guaranteed or as told."""

    policy: str = "paceline"
    switch: str | None = "sw"
    now_ns: int = 0
    sends_bps: float | None = None
    sent: dict[FlowId, float] = field(default_factory=dict)
    log: list[tuple[int, Effect]] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock = SlotClock(SLOT_NS, HORIZON)
        self.agent = HostAgent("h0", TOPOLOGY, clock, policy_named(self.policy), self.switch)

    def join(self, *jobs: JobSpec) -> list[FlowId]:
        joined = []
        for job in jobs:
            specs = flows_of(job)
            own = tuple(spec for spec in specs if spec.flow.source == "h0")
            fed = downstream_of(specs)
            self.tell(JobJoined(job.name, own, tuple((spec.flow, fed[spec.flow]) for spec in own)))
            joined += [spec.flow for spec in own]
        return joined

    def ready(self, flow: FlowId, at_ns: int, iteration: int = 0) -> list[Effect]:
        self.until(at_ns)
        self.sent[flow] = 0.0
        return self.tell(FlowReady(flow, iteration))

    def done(self, flow: FlowId) -> list[Effect]:
        del self.sent[flow]
        return self.tell(FlowDone(flow))

    def tell(self, event: HostEvent) -> list[Effect]:
        if self.sent:
            self.log += ((self.now_ns, e) for e in self.agent.handle(self._counters(), self.now_ns))
        effects = self.agent.handle(event, self.now_ns)
        self.log += ((self.now_ns, effect) for effect in effects)
        return effects

    def answer(self, *grants: Grant, at_ns: int | None = None, push: bool = False) -> list[Effect]:
        """The switch speaks: to the last report, unless it is a push."""
        self.until(self.now_ns + RTT_NS if at_ns is None else at_ns)
        number = -1 if push else self.reports()[-1][1].number
        slot = self.agent.clock.index(self.now_ns)
        return self.tell(Feedback(sender="sw", answers=number, first_slot=slot, grants=grants))

    def until(self, at_ns: int) -> list[Effect]:
        """Let time pass with a Tick whenever the agent asked for one."""
        effects: list[Effect] = []
        while (due_ns := self.agent.next_deadline()) is not None and due_ns <= at_ns:
            self._move(max(due_ns, self.now_ns))
            effects += self.tell(Tick())
        self._move(at_ns)
        return effects

    def _move(self, at_ns: int) -> None:
        for flow in self.sent:
            rate_bps = min(self.limit_of(flow)[0], GBPS) if self.sends_bps is None else self.sends_bps
            sent_bytes = self.sent[flow] + rate_bps * (at_ns - self.now_ns) / 8e9
            self.sent[flow] = min(sent_bytes, SIZE_BYTES)
        self.now_ns = at_ns

    def _counters(self) -> Progress:
        return Progress(tuple(self.sent.items()))

    def reports(self, since_ns: int = 0) -> list[tuple[int, Report]]:
        return [
            (when, effect.message)
            for when, effect in self.log
            if isinstance(effect, Send) and isinstance(effect.message, Report) and when >= since_ns
        ]

    def claims_of(self, flow: FlowId, since_ns: int = 0) -> list[int]:
        return [when for when, report in self.reports(since_ns) if flow in {claim.flow for claim in report.claims}]

    def withdrawals_of(self, flow: FlowId, since_ns: int = 0) -> list[int]:
        return [when for when, report in self.reports(since_ns) if flow in {gone.flow for gone in report.withdrawn}]

    def limit_of(self, flow: FlowId) -> tuple[float, float]:
        """The last Limit."""
        limits = [e for _, e in self.log if isinstance(e, Limit) and e.flow == flow]
        return (limits[-1].rate_bps, limits[-1].ceiling_bps) if limits else (INF, INF)


def grant(
    flow: FlowId,
    share_bps: float = 0.0,
    ceiling_bps: float | None = None,
    *,
    available_bps: tuple[float, ...] = (GBPS,) * HORIZON,
    load: tuple[float, ...] = (0.0,) * HORIZON,
    accepted: bool = True,
    upstream_bytes: float = INF,
    downstream_bytes: float = 0.0,
) -> Grant:
    return Grant(
        flow=flow,
        accepted=accepted,
        share_bps=share_bps,
        ceiling_bps=share_bps if ceiling_bps is None else ceiling_bps,
        available_bps=available_bps,
        load=load,
        alone_ns=200 * MS,
        upstream_bytes=upstream_bytes,
        downstream_bytes=downstream_bytes,
    )

"""Building blocks of the walk through the paper: jobs, an emulated switch, and a worker's host."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import Effect, FlowReady, HostEvent, JobJoined, Limit, Progress, Send, Tick
from paceline.flowcore.messages.reports import NO_ANSWER, Bid, Claim, Feedback, Grant, Report
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId, Role, downstream_of, flows_of
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.sim.run import RunResult, alone_iterations_s, run

SLOT_NS = 60_000_000  # t̂ = 60 ms (§IV-C)
HORIZON = 10  # K = 10 (§V)
GBPS = 1e9
INF = float("inf")
CLOCK = SlotClock(SLOT_NS, HORIZON)
STAR = star(4, 1.0)


def ring(*workers: str, name: str = "job", model_mb: float | None = None, compute_s: float = 0.2) -> JobSpec:
    """By default every worker sends 25 MB to the next: 0.2 s at 1 Gbit/s."""
    members = len(workers)
    model_mb = 25.0 * members / (2 * (members - 1)) if model_mb is None else model_mb
    return JobSpec(name, Pattern.ALLREDUCE, workers, (), model_mb, compute_s, None, 0.0, 0.03)


def parameter_server() -> JobSpec:
    return JobSpec("ps", Pattern.PS, ("h0", "h1"), ("h2",), 12.5, 0.2, None, 0.0, 0.03)


def scenario(jobs: Sequence[JobSpec], hosts: int = 2, duration_s: float = 30.0, slot_ms: float = 60.0) -> Scenario:
    return Scenario("paper", 1, duration_s, SlotsSpec(slot_ms, HORIZON), star(hosts, 1.0), tuple(jobs), ())


@cache
def measured(policy: str, copies: int, *mix: tuple[float, float], slot_ms: float = 60.0) -> RunResult:
    """Jobs of (compute s, communicate s at full rate) on one link."""
    jobs = [
        ring("h0", "h1", name=f"job{number}", model_mb=125.0 * communicate_s, compute_s=compute_s)
        for number, (compute_s, communicate_s) in enumerate(mix * copies)
    ]
    shared = scenario(jobs, slot_ms=slot_ms)
    return run(shared, policy, alone_s=_alone_s(shared))


@cache
def _alone_s_of(jobs: tuple[JobSpec, ...]) -> dict[str, float]:
    return alone_iterations_s(scenario(jobs), 1)


def _alone_s(shared: Scenario) -> dict[str, float]:
    return _alone_s_of(shared.jobs)


class Switch:
    """One SwitchAgent without arbitration, as the paper's emulated switch."""

    def __init__(self) -> None:
        self.agent = SwitchAgent("sw", domains(STAR)["sw"], CLOCK, POLICIES["mlcc"]())

    def report(
        self,
        host: str,
        flow: FlowId,
        plan_bps: tuple[float, ...] = (),
        *,
        sent_bytes: float = 0.0,
        upstream: tuple[FlowId, ...] = (),
        downstream: tuple[FlowId, ...] = (),
    ) -> dict[FlowId, Grant]:
        claim = Claim(
            flow=flow,
            path=STAR.path(flow.source, flow.target, str(flow)),
            size_bytes=25e6,
            bid=Bid(0.0),
            sent_bytes=sent_bytes,
            planned_bytes=0.0,
            upstream=upstream,
            downstream=downstream,
            plan_bps=plan_bps,
        )
        effects = self.agent.handle(Report(sender=host, number=1, first_slot=0, claims=(claim,)), 0)
        return {
            grant.flow: grant
            for effect in effects
            if isinstance(effect, Send) and isinstance(effect.message, Feedback)
            for grant in effect.message.grants
        }


@dataclass
class Worker:
    """An mlcc HostAgent with the first flow its host sends for a job; the switch says what a test says.

    The flow sends at the rate the agent sets, unless the network lets it have less.
    """

    job: JobSpec
    sender: str = "h0"
    network_bps: float = INF

    into_slot_ns = 4_000_000  # when the fetched loads arrive

    def __post_init__(self) -> None:
        self.agent = HostAgent(self.sender, STAR, CLOCK, POLICIES["mlcc"](), "sw")
        specs = flows_of(self.job)
        own = tuple(spec for spec in specs if spec.flow.source == self.sender)
        fed = downstream_of(specs)
        self.flow, self.size_bytes = own[0].flow, own[0].size_bytes
        self.sent_bytes = self.rate_bps = 0.0
        self.slot = self.now_ns = 0
        self._tell(JobJoined(self.job.name, own, tuple((spec.flow, fed[spec.flow]) for spec in own)))

    @property
    def remaining_bytes(self) -> float:
        return self.size_bytes - self.sent_bytes

    def ready(self, at_ns: int = 0) -> list[Effect]:
        self.now_ns = at_ns
        return self._tell(FlowReady(self.flow, 0))

    def plan(
        self,
        available_bps: tuple[float, ...] = (GBPS,) * HORIZON,
        load: tuple[float, ...] = (0.0,) * HORIZON,
        upstream_ahead_bytes: float | None = None,
        downstream_ahead_bytes: float = 0.0,
    ) -> tuple[float, ...]:
        """A new slot begins, the loads arrive; the plan it updates the switch with."""
        self.slot += 1
        self._pass_time(self.slot * SLOT_NS)
        self._tell(Tick())
        self._pass_time(self.slot * SLOT_NS + self.into_slot_ns)
        grant = Grant(
            flow=self.flow,
            accepted=True,
            share_bps=0.0,
            ceiling_bps=0.0,
            available_bps=available_bps,
            load=load,
            alone_ns=200_000_000,
            upstream_bytes=self._upstream_bytes(upstream_ahead_bytes),
            downstream_bytes=self.sent_bytes + downstream_ahead_bytes,
        )
        feedback = Feedback(sender="sw", answers=NO_ANSWER, first_slot=self.slot, grants=(grant,))
        effects = self._tell(feedback)
        [update] = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Report)]
        return next(claim.plan_bps for claim in update.claims if claim.flow == self.flow)

    def sends_now(
        self,
        load: tuple[float, ...] = (0.0,) * HORIZON,
        upstream_ahead_bytes: float | None = None,
        downstream_ahead_bytes: float = 0.0,
    ) -> float:
        """Bytes it plans to send in what is left of the slot."""
        plan_bps = self.plan((GBPS,) * HORIZON, load, upstream_ahead_bytes, downstream_ahead_bytes)
        return plan_bps[0] * (SLOT_NS - self.into_slot_ns) / 8e9

    def _upstream_bytes(self, ahead_bytes: float | None) -> float:
        """Aggregation has no upstream. Where a test says nothing, a ring's feeder is in step with the flow."""
        if self.flow.role is Role.PUSH:
            return INF
        return self.sent_bytes + (ahead_bytes or 0.0)

    def _pass_time(self, now_ns: int) -> None:
        rate_bps = min(self.rate_bps, self.network_bps)
        self.sent_bytes = min(self.size_bytes, self.sent_bytes + rate_bps * (now_ns - self.now_ns) / 8e9)
        self.now_ns = now_ns
        self._tell(Progress(((self.flow, self.sent_bytes),)))

    def _tell(self, event: HostEvent) -> list[Effect]:
        effects = self.agent.handle(event, self.now_ns)
        for effect in effects:
            if isinstance(effect, Limit) and effect.flow == self.flow:
                self.rate_bps = effect.rate_bps
        return effects

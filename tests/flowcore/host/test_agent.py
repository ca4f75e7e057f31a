"""HostAgent alone: the switch is a script, the network a constant rate."""

from dataclasses import dataclass, field, replace

import pytest

from paceline.flowcore.host.agent import SILENCE_SLOTS, HostAgent
from paceline.flowcore.messages.events import (
    ClockSet,
    Effect,
    FlowDone,
    FlowReady,
    HostEvent,
    IterationEnded,
    JobJoined,
    JobLeft,
    Limit,
    Progress,
    Send,
    SwitchLost,
    Tick,
    Welcomed,
)
from paceline.flowcore.messages.reports import Feedback, Grant, Report
from paceline.flowcore.model.patterns import FlowId, downstream_of, flows_of
from paceline.flowcore.model.scenario import JobSpec, Pattern
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy import POLICIES

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
        self.agent = HostAgent("h0", TOPOLOGY, clock, POLICIES[self.policy](), self.switch)

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


# ---- When it reports ----


@pytest.mark.parametrize("policy", ["paceline", "fifo", "srpt"])
def test_it_reports_the_moment_a_flow_is_ready(policy: str) -> None:
    host = Host(policy)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 10 * MS)
    assert host.claims_of(flow) == [10 * MS]
    assert host.limit_of(flow) == (FLOOR_BPS, GBPS)  # it starts at once, guaranteed nothing


def test_mlcc_waits_for_the_next_slot() -> None:
    host = Host("mlcc")
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 10 * MS)
    assert host.reports() == []
    assert host.limit_of(flow) == (FLOOR_BPS, FLOOR_BPS)
    host.until(SLOT_NS)
    assert host.claims_of(flow) == [SLOT_NS]


def test_fair_neither_asks_nor_limits() -> None:
    host = Host("fair")
    [flow] = host.join(ring("a", "h0", "h1"))
    assert host.ready(flow, 10 * MS) == []
    assert host.agent.next_deadline() is None
    assert host.done(flow) == []


def test_it_wants_no_timer_while_nothing_is_to_be_sent() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    assert host.agent.next_deadline() is None
    host.ready(flow, 10 * MS)
    assert host.agent.next_deadline() == SLOT_NS
    host.done(flow)
    assert host.agent.next_deadline() is None


def test_every_slot_renews_the_lease_of_every_live_flow() -> None:
    host = Host()
    one, other = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    host.ready(one, 10 * MS)
    host.ready(other, 20 * MS)
    for slot in range(1, 4):
        host.answer(grant(one, 1e8), grant(other, 1e8), at_ns=slot * SLOT_NS + RTT_NS)
    assert host.claims_of(one)[1:] == host.claims_of(other)[1:] == [60 * MS, 120 * MS, 180 * MS]


def test_a_claim_says_how_far_the_flow_is_over_all_iterations() -> None:
    host = Host(sends_bps=GBPS)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.until(SLOT_NS)
    [claim] = host.reports()[-1][1].claims
    assert claim.sent_bytes == pytest.approx(GBPS * 0.06 / 8)
    host.done(flow)
    host.ready(flow, 500 * MS, iteration=1)
    [claim] = host.reports()[-1][1].claims
    assert claim.sent_bytes == pytest.approx(SIZE_BYTES)
    assert claim.path == ("h0->sw", "sw->h1")


# ---- Rates follow grants ----


def test_rate_and_ceiling_follow_the_grant() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 4e8, 7e8))
    assert host.limit_of(flow) == (4e8, 7e8)
    host.answer(grant(flow, 2e8, 3e8), push=True)
    assert host.limit_of(flow) == (2e8, 3e8)


@pytest.mark.parametrize("policy", ["paceline", "mlcc"])
def test_never_below_the_floor(policy: str) -> None:
    host = Host(policy)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    nothing = grant(flow, 0.0, 0.0, available_bps=(0.0,) * HORIZON, load=(2.0,) * HORIZON)
    for slot in range(1, 5):
        host.answer(nothing, at_ns=slot * SLOT_NS + RTT_NS)
        assert host.limit_of(flow) == (FLOOR_BPS, FLOOR_BPS)
    limits = [effect for _, effect in host.log if isinstance(effect, Limit)]
    assert all(limit.rate_bps >= FLOOR_BPS and limit.ceiling_bps >= FLOOR_BPS for limit in limits)


def test_a_rate_in_force_is_not_set_again() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 4e8, 7e8))
    effects = host.answer(grant(flow, 4e8, 7e8), push=True)
    assert not any(isinstance(effect, Limit) for effect in effects)


def test_a_grant_for_a_flow_that_is_through_or_unknown_is_ignored() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.done(flow)
    stranger = FlowId("gone", "h0", "h1", flow.role)
    assert host.answer(grant(flow, 4e8), grant(stranger, 4e8), push=True) == []


def test_mlcc_applies_what_it_plans_for_this_slot() -> None:
    """Half of every slot is taken; 25 MB in slots of 3.75 MB take seven, so it uses the half it finds now."""
    host = Host("mlcc")
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.until(SLOT_NS)
    effects = host.answer(grant(flow, available_bps=(5e8,) * HORIZON, load=(0.5,) * HORIZON))
    assert host.limit_of(flow) == pytest.approx((5e8, 5e8))
    [plan] = [e.message.claims[0].plan_bps for e in effects if isinstance(e, Send)]
    assert plan[0] == pytest.approx(5e8)
    planned = plan[0] * (SLOT_NS - RTT_NS) / 8e9 + sum(plan[1:]) * SLOT_NS / 8e9
    left_bytes = SIZE_BYTES - host.sent[flow]
    assert planned == pytest.approx(left_bytes)  # nothing more, nothing less


def test_mlcc_plans_a_refused_slot_anew_and_gives_up_in_the_end() -> None:
    host = Host("mlcc")
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.until(SLOT_NS)
    host.answer(grant(flow))
    assert host.limit_of(flow)[0] == pytest.approx(GBPS)
    taken = grant(flow, accepted=False, available_bps=(2e8,) + (GBPS,) * (HORIZON - 1))
    host.answer(taken)
    assert host.limit_of(flow)[0] <= 2e8 * (1 + 1e-9)  # at once, and within the loads of the refusal
    while any(isinstance(effect, Send) for effect in host.answer(taken)):
        assert host.now_ns < 2 * SLOT_NS - RTT_NS  # not for ever
    assert host.limit_of(flow) == (FLOOR_BPS, FLOOR_BPS)
    host.until(2 * SLOT_NS)
    assert host.claims_of(flow)[-1] == 2 * SLOT_NS


def test_mlcc_plans_its_own_flows_one_after_the_other() -> None:
    """Two flows on one NIC are told of the same empty link; together they may not plan it twice."""
    host = Host("mlcc")
    flows = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in flows:
        host.ready(flow, 0)
    host.until(SLOT_NS)
    effects = host.answer(*(grant(flow) for flow in flows))
    [report] = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Report)]
    for one, other in zip(*(claim.plan_bps for claim in report.claims), strict=True):
        assert one + other <= GBPS * (1 + 1e-9)
    assert sum(host.limit_of(flow)[0] for flow in flows) <= GBPS + FLOOR_BPS


# ---- Plans ----


def test_a_refused_plan_is_made_anew_at_once() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 1e8))
    host.until(SLOT_NS)
    assert host.reports()[-1][1].claims[0].plan_bps
    busy = (1e8, 2e8, 3e8, *(4e8,) * (HORIZON - 3))
    effects = host.answer(grant(flow, 1e8, accepted=False, available_bps=busy))
    [report] = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Report)]
    [claim] = report.claims
    assert len(claim.plan_bps) <= HORIZON
    assert any(claim.plan_bps[1:])
    assert all(rate <= free * (1 + 1e-9) for rate, free in zip(claim.plan_bps, busy, strict=True))


def test_flows_of_one_host_do_not_plan_the_same_slot() -> None:
    """They are told of the same empty link; planned twice, it would be refused to one of them in every slot."""
    host = Host()
    flows = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in flows:
        host.ready(flow, 0)
    host.answer(*(grant(flow, 4e8) for flow in flows))
    host.until(SLOT_NS)
    plans = [claim.plan_bps for claim in host.reports()[-1][1].claims]
    assert len(plans) == 2 and all(any(plan[1:]) for plan in plans)
    assert all(one + other <= GBPS * (1 + 1e-9) for one, other in zip(*plans, strict=True))


def test_an_accepted_plan_is_left_alone() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 1e8))
    host.until(SLOT_NS)
    assert not any(isinstance(effect, Send) for effect in host.answer(grant(flow, 1e8)))


# ---- Hand-over ----


def run_to_the_hand_over(host: Host, flow: FlowId) -> int:
    """Granted the line rate 4 ms after it is ready, and sending at it; when it will have sent everything."""
    host.ready(flow, 0)
    host.answer(grant(flow, GBPS))
    host.sends_bps = GBPS
    end_ns = host.now_ns + 200 * MS
    for slot in range(1, 4):
        host.answer(grant(flow, GBPS), at_ns=slot * SLOT_NS + RTT_NS)
    return end_ns


def test_it_withdraws_one_round_trip_before_the_end() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    end_ns = run_to_the_hand_over(host, flow)
    host.until(end_ns - 1)
    [withdrawn_ns] = host.withdrawals_of(flow)
    assert withdrawn_ns == pytest.approx(end_ns - RTT_NS, abs=MS // 100)
    host.until(end_ns)
    host.done(flow)
    assert len(host.withdrawals_of(flow)) == 1  # not again


def test_if_the_prediction_failed_by_far_it_claims_again() -> None:
    """It withdrew, and then the switch took the line rate away: what is left takes many slots."""
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    end_ns = run_to_the_hand_over(host, flow)
    host.until(end_ns - MS)
    assert host.withdrawals_of(flow)
    host.sends_bps = 0.0
    host.answer(grant(flow, 1e6, 1e6), at_ns=end_ns, push=True)
    host.until(end_ns + SLOT_NS)
    assert host.claims_of(flow, since_ns=end_ns)


def test_a_flow_that_ends_without_warning_is_withdrawn() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 1e8))
    host.done(flow)
    assert host.withdrawals_of(flow) == [RTT_NS]


# ---- Without a switch ----


def test_after_so_many_silent_slots_it_goes_on_with_its_own_nic() -> None:
    host = Host()
    flows = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in flows:
        host.ready(flow, 0)
    host.until(SILENCE_SLOTS * SLOT_NS)
    assert all(host.limit_of(flow) == (FLOOR_BPS, GBPS) for flow in flows)
    host.until((SILENCE_SLOTS + 1) * SLOT_NS)
    shares = sorted(host.limit_of(flow)[0] for flow in flows)
    assert sum(shares) <= GBPS + FLOOR_BPS
    assert shares[-1] == GBPS  # one of them has the NIC


def test_it_keeps_knocking_and_returns_when_the_switch_speaks() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    silent_ns = (SILENCE_SLOTS + 1) * SLOT_NS
    host.until(silent_ns)
    assert host.limit_of(flow)[0] == GBPS
    host.until(silent_ns + 2 * SLOT_NS)
    assert host.claims_of(flow, since_ns=silent_ns + 1)
    host.answer(grant(flow, 3e8, 5e8))
    assert host.limit_of(flow) == (3e8, 5e8)
    host.answer(grant(flow, 3e8, 5e8), at_ns=host.now_ns + SLOT_NS)
    assert host.limit_of(flow) == (3e8, 5e8)  # its own table no longer answers


def test_a_broken_stream_is_believed_at_once() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 1e8, 1e8))
    host.tell(SwitchLost())
    assert host.limit_of(flow) == (GBPS, GBPS)


@pytest.mark.parametrize("policy", ["paceline", "mlcc", "fifo", "srpt"])
def test_public_cloud_shares_the_nic_without_a_single_message(policy: str) -> None:
    """§VI-H: the host keeps the table of its own NIC; the same program, another configuration."""
    host = Host(policy, switch=None)
    flows = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in flows:
        host.ready(flow, 0)
    host.until(2 * SLOT_NS)
    rates = sorted(host.limit_of(flow)[0] for flow in flows)
    assert sum(rates) <= GBPS + FLOOR_BPS
    assert rates[-1] >= 0.5 * GBPS  # and nobody else slows it down
    ahead = max(flows, key=lambda flow: host.limit_of(flow)[0])
    behind = next(flow for flow in flows if flow != ahead)
    since = len(host.log)
    host.done(ahead)
    host.until(4 * SLOT_NS)
    limits = [effect for _, effect in host.log[since:] if isinstance(effect, Limit)]
    assert max(limit.rate_bps for limit in limits if limit.flow == behind) == pytest.approx(GBPS)
    assert host.reports() == []


# ---- Jobs come and go ----


def test_a_job_that_leaves_takes_its_limits_and_claims_along() -> None:
    host = Host()
    one, other = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in (one, other):
        host.ready(flow, 0)
    host.answer(grant(one, 5e8), grant(other, 5e8))
    effects = host.tell(JobLeft("a"))
    assert Limit(one, INF, INF) in effects
    assert host.withdrawals_of(one) == [RTT_NS]
    assert host.withdrawals_of(other) == []
    assert set(host.agent.flows) == {other}
    assert set(host.agent.jobs) == {"b"}


def test_leaving_twice_is_harmless() -> None:
    host = Host()
    host.join(ring("a", "h0", "h1"))
    host.tell(JobLeft("a"))
    assert host.tell(JobLeft("a")) == []


def test_a_job_that_joins_again_starts_anew() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 5e8))
    host.sent.clear()
    host.join(replace(ring("a", "h0", "h2")))
    assert host.withdrawals_of(flow) == [RTT_NS]
    assert [known.target for known in host.agent.flows] == ["h2"]


def test_nothing_is_left_of_a_hundred_jobs() -> None:
    host = Host()
    for number in range(100):
        [flow] = host.join(ring(f"job{number}", "h0", "h1"))
        host.ready(flow, host.now_ns + MS)
        host.answer(grant(flow, GBPS))
        host.done(flow)
        host.tell(IterationEnded(f"job{number}"))
        host.tell(JobLeft(f"job{number}"))
    kept = [value for value in vars(host.agent).values() if isinstance(value, dict | list | set)]
    assert sum(len(value) for value in kept) <= 2  # at most the effects of the last event


def test_who_waited_unobserved_was_promised_nothing_meanwhile() -> None:
    """A daemon does not read the counters of a flow that may not send, not even when its turn comes."""
    host = Host()
    (flow,) = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.answer(grant(flow, 0.0))
    before = host.agent.flows[flow].promised_bytes

    def hear(event: HostEvent, at_ms: int) -> None:
        host.agent.handle(event, at_ms * MS)

    hear(Feedback(sender="sw", answers=-1, first_slot=5, grants=(grant(flow, GBPS),)), 304)
    hear(Progress(((flow, 12.5e6),), ()), 404)
    promised_bytes = host.agent.flows[flow].promised_bytes - before
    assert promised_bytes == pytest.approx(GBPS / 8 * 0.1, rel=0.01)


def test_a_job_that_waits_bids_more() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 200 * MS)
    bids = []
    for _ in range(20):
        host.answer(grant(flow, 0.0))
        host.until(host.agent.clock.next_start_ns(host.now_ns))
        bids.append(host.reports()[-1][1].claims[0].bid.urgency)
    assert bids == sorted(bids)
    assert bids[-1] > 1.5 * bids[0]


def test_claims_again_after_a_failed_hand_over_while_the_switch_talks_about_another_flow() -> None:
    host = Host()
    stalled, other = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    end_ns = run_to_the_hand_over(host, stalled)
    host.until(end_ns - MS)
    assert host.withdrawals_of(stalled)
    host.sends_bps = 0.0
    host.ready(other, end_ns)
    for slot in range(4, 20):
        host.answer(grant(other, 1e8), at_ns=slot * SLOT_NS + RTT_NS)
    assert host.claims_of(stalled, since_ns=end_ns)


# ---- A phase of the slot, so that a switch's hosts do not all come at once ----


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
@pytest.mark.parametrize("phase_ns", [0, 20 * MS, SLOT_NS - 1])
def test_it_reports_at_its_phase(policy: str, phase_ns: int) -> None:
    host = Host(policy)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.tell(Welcomed(phase_ns))
    host.ready(flow, 0)
    for _ in range(4):
        host.answer(grant(flow, 1e8), push=True)
        host.until(host.now_ns + SLOT_NS)
    regular = {when for when in host.claims_of(flow) if when % SLOT_NS == phase_ns}
    assert {phase_ns + slot * SLOT_NS for slot in range(1, 4)} <= regular


def test_a_phase_that_is_none_stays_within_the_slot() -> None:
    host = Host("mlcc")
    [flow] = host.join(ring("a", "h0", "h1"))
    for phase_ns, first_ns in ((10 * SLOT_NS, 2 * SLOT_NS - 1), (-5, 2 * SLOT_NS)):
        host.tell(Welcomed(phase_ns))
        host.ready(flow, SLOT_NS)
        host.until(2 * SLOT_NS)
        assert host.claims_of(flow, since_ns=SLOT_NS + 1) == [first_ns]
        host.done(flow)
        host = Host("mlcc")
        [flow] = host.join(ring("a", "h0", "h1"))


def test_mlcc_applies_its_plan_where_the_slot_begins() -> None:
    """It reports 20 ms into a slot; what it planned for the next slot is in force from that slot's first moment."""
    host = Host("mlcc", sends_bps=0.0)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.tell(Welcomed(20 * MS))
    host.ready(flow, 0)
    host.until(20 * MS)
    available = (1e8, 2e8, 3e8, *(4e8,) * (HORIZON - 3))
    host.answer(grant(flow, available_bps=available))
    planned = host.agent.flows[flow].plan_bps
    assert host.limit_of(flow)[0] == pytest.approx(planned[0])
    host.until(SLOT_NS - 1)
    assert host.limit_of(flow)[0] == pytest.approx(planned[0])
    host.until(SLOT_NS)
    assert planned[1] != planned[0]
    assert host.limit_of(flow)[0] == pytest.approx(planned[1])
    assert host.claims_of(flow, since_ns=SLOT_NS) == []  # not yet time to report


def test_mlcc_without_a_phase_negotiates_first() -> None:
    host = Host("mlcc", sends_bps=0.0)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, -1)
    host.until(0)
    host.answer(grant(flow, available_bps=(1e8, 2e8, *(4e8,) * (HORIZON - 2))))
    before = host.limit_of(flow)
    host.until(SLOT_NS)
    assert host.limit_of(flow) == before  # the paper: fetch, plan, apply
    assert host.claims_of(flow, since_ns=SLOT_NS) == [SLOT_NS]


# ---- A switch with another idea of the time ----


@pytest.mark.parametrize("by_slots", [-5, 500])
@pytest.mark.parametrize("switch", ["sw", None])
@pytest.mark.parametrize("policy", [name for name in POLICIES if POLICIES[name]().paced])
def test_a_clock_that_is_set_costs_no_slot(policy: str, switch: str | None, by_slots: int) -> None:
    host = Host(policy, switch, sends_bps=1e7)
    flows = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in flows:
        host.ready(flow, 10 * MS)
    for _ in range(8):
        host.until(host.now_ns + SLOT_NS)
        if switch:
            host.answer(*(grant(flow, GBPS / 2) for flow in flows))
    slowdowns = {name: job.progress.slowdown for name, job in host.agent.jobs.items()}
    host.now_ns += by_slots * SLOT_NS
    host.log += ((host.now_ns, one) for one in host.agent.handle(ClockSet(by_slots * SLOT_NS), host.now_ns))
    begun_ns = host.now_ns
    assert host.agent.next_deadline() is not None
    before = len(host.log)
    host.until(begun_ns + 2 * SLOT_NS)
    if switch:
        assert not host.agent.isolated, "nobody was silent"
        reports = [when for when, effect in host.log[before:] if isinstance(effect, Send)]
        assert len(reports) >= 2, "one in every slot"
        host.answer(*(grant(flow, GBPS / 2) for flow in flows))
    host.until(host.now_ns + SLOT_NS)
    for name, job in host.agent.jobs.items():
        assert job.progress.slowdown == pytest.approx(slowdowns[name], rel=0.5), "what it was is what counts"
    for flow in flows:
        host.done(flow)
    assert host.agent.next_deadline() is None

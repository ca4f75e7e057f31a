"""HostAgent: when it reports, what it enforces, and jobs that come and go."""

from dataclasses import replace

import pytest

from paceline.flowcore.messages.events import HostEvent, IterationEnded, JobJoined, JobLeft, Limit, Progress
from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from tests.flowcore.host.scripted_host import (
    FLOOR_BPS,
    GBPS,
    HORIZON,
    INF,
    MS,
    RTT_NS,
    SIZE_BYTES,
    SLOT_NS,
    Host,
    grant,
    ring,
)

# ---- When it reports ----


@pytest.mark.parametrize("policy", ["paceline", "fifo", "srpt"])
def test_it_reports_the_moment_a_flow_is_ready(policy: str) -> None:
    host = Host(policy)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 10 * MS)
    assert host.claims_of(flow) == [10 * MS]
    assert host.limit_of(flow) == (FLOOR_BPS, GBPS)  # it starts at once, guaranteed nothing


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


def test_every_slot_renews_the_claim_of_every_live_flow() -> None:
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
    assert bids[-1] > 1.25 * bids[0]


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
    unknown = FlowId("gone", "h0", "h1", flow.role)
    assert host.answer(grant(flow, 4e8), grant(unknown, 4e8), push=True) == []


def test_a_flow_that_waited_unobserved_was_promised_nothing_meanwhile() -> None:
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


@pytest.mark.parametrize("unstoppable", [False, True])
def test_a_job_whose_launches_alone_are_held_says_when_its_burst_has_begun(unstoppable: bool) -> None:
    host = Host()
    flow = FlowId("a", "h0", "h1", Role.RING)
    host.tell(JobJoined("a", (FlowSpec(flow, SIZE_BYTES, (), INF),), unstoppable=unstoppable))
    host.ready(flow, 10 * MS)
    said = [(at_ns, claim.unstoppable) for at_ns, report in host.reports() for claim in report.claims]
    assert said == [(10 * MS, False)]
    host.answer(grant(flow, share_bps=GBPS))
    host.until(SLOT_NS + 10 * MS)
    assert [claim.unstoppable for _, report in host.reports(11 * MS) for claim in report.claims] == [unstoppable]

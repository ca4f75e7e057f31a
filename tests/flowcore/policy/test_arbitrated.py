"""Arbitrated policies on a host: plans beyond the current slot, and the hand-over of a share."""

import pytest

from paceline.flowcore.messages.events import Send
from paceline.flowcore.messages.reports import Report
from paceline.flowcore.model.patterns import FlowId
from tests.flowcore.host.scripted_host import GBPS, HORIZON, MS, RTT_NS, SLOT_NS, Host, grant, ring

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

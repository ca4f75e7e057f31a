"""mlcc on a host: it waits for the slot, plans it, plans a refused one anew, and applies the plan at the boundary."""

import pytest

from paceline.flowcore.messages.events import Send, Welcomed
from paceline.flowcore.messages.reports import Report
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.policy import policy_named
from paceline.flowcore.policy.mlcc import OPTIONS
from tests.flowcore.host.scripted_host import (
    FLOOR_BPS,
    GBPS,
    HORIZON,
    MS,
    RTT_NS,
    SIZE_BYTES,
    SLOT_NS,
    Host,
    grant,
    ring,
)


def test_mlcc_waits_for_the_next_slot() -> None:
    host = Host("mlcc")
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 10 * MS)
    assert host.reports() == []
    assert host.limit_of(flow) == (FLOOR_BPS, FLOOR_BPS)
    host.until(SLOT_NS)
    assert host.claims_of(flow) == [SLOT_NS]


def test_mlcc_applies_what_it_plans_for_this_slot() -> None:
    """Half of every slot is taken; 25 MB in slots of 3.75 MB take seven, so it uses the half it finds now."""
    host = Host("mlcc")
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.until(SLOT_NS)
    effects = host.answer(grant(flow, available_bps=(5e8,) * HORIZON, load=(0.5,) * HORIZON))
    assert host.limit_of(flow) == pytest.approx((5e8, 5e8))
    [report] = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Report)]
    plan = report.claims[0].plan_bps
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


# ---- Where the text can be read otherwise: each point by itself ----


def ready_in_mid_slot(policy: str, sends_bps: float | None = None) -> tuple[Host, FlowId]:
    host = Host(policy, sends_bps=sends_bps)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 10 * MS)
    return host, flow


def test_ready_plans_at_once() -> None:
    host, flow = ready_in_mid_slot("mlcc:ready")
    assert host.limit_of(flow) == (FLOOR_BPS, FLOOR_BPS)
    assert host.claims_of(flow) == [10 * MS]
    host.answer(grant(flow))
    assert host.now_ns < SLOT_NS and host.limit_of(flow) == pytest.approx((GBPS, GBPS))


def test_line_rate_lets_the_first_packets_go() -> None:
    host, flow = ready_in_mid_slot("mlcc:line-rate")
    assert host.limit_of(flow) == (FLOOR_BPS, GBPS)
    assert host.reports() == [], "it plans with the next slot"


def test_open_guarantees_the_plan_and_lets_a_flow_borrow() -> None:
    host, flow = ready_in_mid_slot("mlcc:open")
    assert host.limit_of(flow) == (FLOOR_BPS, FLOOR_BPS)
    host.until(SLOT_NS)
    host.answer(grant(flow, available_bps=(5e8,) * HORIZON))
    assert host.limit_of(flow) == pytest.approx((5e8, GBPS))


@pytest.mark.parametrize(("policy", "ceiling_bps"), [("mlcc:open", FLOOR_BPS), ("mlcc:tail", GBPS)])
def test_tail_lets_a_flow_borrow_in_a_slot_that_is_full(policy: str, ceiling_bps: float) -> None:
    host, flow = ready_in_mid_slot(policy)
    host.until(SLOT_NS)
    host.answer(grant(flow, available_bps=(0.0,) + (GBPS,) * (HORIZON - 1)))
    assert host.limit_of(flow) == (FLOOR_BPS, ceiling_bps)


@pytest.mark.parametrize(("policy", "found_bps"), [("mlcc", 3e8), ("mlcc:slot-mean", 1e8)])
def test_b_is_of_the_fastest_stretch_or_of_whole_slots(policy: str, found_bps: float) -> None:
    """For 20 ms of a slot the network lets 0.3 Gbit/s pass, then nothing."""
    host, flow = ready_in_mid_slot(policy, sends_bps=0.0)
    host.until(SLOT_NS)
    host.answer(grant(flow))
    state = host.agent.flows[flow]
    state.start_observing(SLOT_NS)
    for at_ms, sent_bytes in ((0, 0.0), (20, 7.5e5), (60, 7.5e5)):
        state.observe(sent_bytes, SLOT_NS + at_ms * MS)
    state.close_slot(1, SLOT_NS)
    assert state.bandwidth.value(1) == pytest.approx(found_bps)


def test_mlcc_open_has_every_point_that_favours_the_paper() -> None:
    assert policy_named("mlcc-open").chosen == frozenset(OPTIONS) - {"slot-mean"}
    assert not policy_named("mlcc").chosen
    with pytest.raises(ValueError, match="mlcc has no option 'opne'; expected of ready, line-rate"):
        policy_named("mlcc:opne")
    with pytest.raises(ValueError, match="fair has no option 'open'; expected of none"):
        policy_named("fair:open")

"""When in a slot HostAgent reports, and what becomes of that when the clock is set."""

import pytest

from paceline.flowcore.messages.events import ClockSet, Send, Welcomed
from paceline.flowcore.policy import POLICIES
from tests.flowcore.host.scripted_host import GBPS, MS, SLOT_NS, Host, grant, ring


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


@pytest.mark.parametrize(("policy", "first_ns"), [("mlcc", SLOT_NS), ("paceline", SLOT_NS + 20 * MS)])
def test_a_slots_beginning_is_a_deadline_where_the_policy_acts_then(policy: str, first_ns: int) -> None:
    host = Host(policy)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.tell(Welcomed(20 * MS))
    host.ready(flow, 30 * MS)
    assert host.agent.next_deadline() == first_ns
    assert not host.agent.counts(SLOT_NS), "nothing but a slot's beginning is due"
    assert set(host.agent.counts(SLOT_NS + 20 * MS)) == {"a"}, "a report is"


def test_before_a_hand_over_only_the_job_that_is_nearly_through_is_counted() -> None:
    host = Host("paceline")
    [first], [second] = host.join(ring("a", "h0", "h1")), host.join(ring("b", "h0", "h1"))
    host.ready(first, 0)
    host.ready(second, 0)
    host.answer(grant(first, 1e9), push=True)
    host.answer(grant(second, 0.0), push=True)
    through_ns = host.agent.policy.next_deadline(host.agent)
    assert through_ns is not None
    assert not host.agent.counts(min(through_ns, SLOT_NS) - 1)
    assert set(host.agent.counts(min(through_ns, SLOT_NS))) == ({"a"} if through_ns < SLOT_NS else {"a", "b"})


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


# ---- A switch with another time ----


@pytest.mark.parametrize("by_slots", [-5, 500])
@pytest.mark.parametrize("switch", ["sw", None])
@pytest.mark.parametrize("policy", [name for name in POLICIES if POLICIES[name]().paced])
def test_a_clock_that_is_set_costs_no_slot(policy: str, switch: str | None, by_slots: int) -> None:
    host = Host(policy, switch, sends_bps=1e8)
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
        assert not host.agent.isolated, "the switch was not silent"
        reports = [when for when, effect in host.log[before:] if isinstance(effect, Send)]
        assert len(reports) >= 2, "one in every slot"
        host.answer(*(grant(flow, GBPS / 2) for flow in flows))
    host.until(host.now_ns + SLOT_NS)
    for name, job in host.agent.jobs.items():
        assert job.progress.slowdown == pytest.approx(slowdowns[name], rel=0.5), "what it was is what counts"
    for flow in flows:
        host.done(flow)
    assert host.agent.next_deadline() is None

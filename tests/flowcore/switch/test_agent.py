"""SwitchAgent alone: answers and refusals, relayed volumes, entries that end."""

import pytest

from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.switch.agent import REST_SLOTS
from paceline.flowcore.switch.claims import JOB_MEMORY_SLOTS
from paceline.flowcore.switch.load_table import ENTRY_SLOTS
from tests.flowcore.switch.fabric import GBPS, HORIZON, SLOT_NS, STAR, A, B, C, Fabric, claim, flow

# ---- Replies and plans (no arbiter: the paper) ----


def test_an_empty_cluster_offers_everything() -> None:
    granted = Fabric(STAR, "mlcc").report("h0", claim(STAR, A))
    assert granted[A].accepted
    assert granted[A].available_bps == (GBPS,) * HORIZON
    assert granted[A].load == (0.0,) * HORIZON
    assert granted[A].alone_ns == 200_000_000
    assert (granted[A].upstream_bytes, granted[A].downstream_bytes) == (float("inf"), 0.0)


def test_the_answer_goes_to_the_sender_and_names_its_flows_only() -> None:
    fabric = Fabric(STAR, "mlcc")
    fabric.report("h3", claim(STAR, C, (4e8,)))
    fabric.report("h0", claim(STAR, A), claim(STAR, B))
    assert list(fabric.inbox) == ["h0"]
    [feedback] = fabric.inbox["h0"]
    assert feedback.sender == "sw"
    assert feedback.first_slot == fabric.slot
    assert {grant.flow for grant in feedback.grants} == {A, B}


def test_a_plan_is_seen_by_other_flows_and_not_by_its_own() -> None:
    fabric = Fabric(STAR, "mlcc")
    own = fabric.report("h0", claim(STAR, A, (GBPS, 5e8)))
    assert own[A].accepted
    assert own[A].available_bps == (GBPS,) * HORIZON
    other = fabric.report("h3", claim(STAR, C))  # shares sw->h1 with A
    assert other[C].available_bps == (0.0, 5e8, *(GBPS,) * (HORIZON - 2))
    assert other[C].load == (1.0, 0.5, *(0.0,) * (HORIZON - 2))


def test_a_refusal_carries_the_current_loads() -> None:
    fabric = Fabric(STAR, "mlcc")
    fabric.report("h0", claim(STAR, A, (7e8, 2e8)))
    refused = fabric.report("h3", claim(STAR, C, (5e8, 5e8)))[C]
    assert not refused.accepted
    assert refused.available_bps[:3] == pytest.approx((3e8, 8e8, GBPS))
    assert refused.load[:3] == pytest.approx((0.7, 0.2, 0.0))
    again = fabric.report("h3", claim(STAR, C, refused.available_bps))[C]
    assert again.accepted


def test_after_a_withdrawal_the_link_is_free() -> None:
    fabric = Fabric(STAR, "mlcc")
    fabric.report("h0", claim(STAR, A, (GBPS,) * HORIZON))
    fabric.report("h0", withdrawn=(A,))
    assert fabric.report("h3", claim(STAR, C))[C].available_bps == (GBPS,) * HORIZON


def test_alone_time_is_the_busiest_links() -> None:
    """Two pushes into one server: its downlink carries both, so the exchange takes 2 × 200 ms alone."""
    fabric = Fabric(STAR, "mlcc")
    push0, push1 = flow("ps", "h0", "h2", Role.PUSH), flow("ps", "h1", "h2", Role.PUSH)
    assert fabric.report("h0", claim(STAR, push0))[push0].alone_ns == 200_000_000
    assert fabric.report("h1", claim(STAR, push1))[push1].alone_ns == 400_000_000
    fabric.report("h0", withdrawn=(push0,))
    assert fabric.report("h1", claim(STAR, push1))[push1].alone_ns == 400_000_000  # it is still that job


# ---- Relayed volumes (§IV-C) ----


def test_it_relays_the_least_of_the_upstream_and_the_most_of_the_downstream_flows() -> None:
    fabric = Fabric(STAR, "mlcc")
    pushes = [flow("ps", f"h{n}", "h2", Role.PUSH) for n in (0, 1)]
    pulls = [flow("ps", "h2", f"h{n}", Role.PULL) for n in (0, 1)]
    fabric.report("h0", claim(STAR, pushes[0], sent_bytes=5e6, planned_bytes=1e6, downstream=tuple(pulls)))
    fabric.report("h1", claim(STAR, pushes[1], sent_bytes=4e6, planned_bytes=1e6, downstream=tuple(pulls)))
    granted = fabric.report(
        "h2",
        claim(STAR, pulls[0], sent_bytes=1e6, upstream=tuple(pushes)),
        claim(STAR, pulls[1], sent_bytes=3e6, planned_bytes=5e5, upstream=tuple(pushes)),
    )
    assert granted[pulls[0]].upstream_bytes == 5e6  # F counts the plan of this slot
    again = fabric.report("h0", claim(STAR, pushes[0], sent_bytes=6e6, downstream=tuple(pulls)))
    assert again[pushes[0]].downstream_bytes == 3.5e6


def test_an_upstream_flow_that_is_through_is_remembered() -> None:
    fabric = Fabric(STAR, "mlcc")
    before, after = flow("r", "h0", "h1"), flow("r", "h1", "h2")
    fabric.report("h0", claim(STAR, before, sent_bytes=2e7))
    fabric.report("h0", withdrawn=(before,))
    assert fabric.report("h1", claim(STAR, after, upstream=(before,)))[after].upstream_bytes == 2.5e7


def test_no_flow_waits_for_an_upstream_flow_whose_host_is_silent() -> None:
    """Its daemon has ended, or let it go: the job runs on."""
    fabric = Fabric(STAR, "mlcc")
    before, after = flow("r", "h0", "h1"), flow("r", "h1", "h2")
    fabric.report("h0", claim(STAR, before, sent_bytes=2e7, downstream=(after,)))
    fabric.wait_until((ENTRY_SLOTS + 2) * SLOT_NS)
    assert fabric.report("h1", claim(STAR, after, upstream=(before,)))[after].upstream_bytes == UNLIMITED
    fabric.wait_until(2 * (ENTRY_SLOTS + 2) * SLOT_NS)
    granted = fabric.report("h0", claim(STAR, before, sent_bytes=2e7, downstream=(after,)))
    assert granted[before].downstream_bytes == 0.0
    assert fabric.report("h1", claim(STAR, after, upstream=(before,)))[after].upstream_bytes == 2e7


def test_volumes_are_compared_in_iterations() -> None:
    """Each host learns sizes by itself: after a thousand iterations a thousandth more is a whole iteration."""
    fabric = Fabric(STAR, "mlcc")
    before, after = flow("r", "h0", "h1"), flow("r", "h1", "h2")
    fabric.report("h0", claim(STAR, before, size_bytes=0.999e6, sent_bytes=1000.5 * 0.999e6))
    granted = fabric.report("h1", claim(STAR, after, size_bytes=1e6, sent_bytes=1000.5e6, upstream=(before,)))
    assert granted[after].upstream_bytes == pytest.approx(1000.5e6)


def test_a_flow_that_a_job_has_no_more_does_not_count_for_ever() -> None:
    """An elastic job goes on with another host."""
    fabric = Fabric(STAR, "mlcc")
    gone, stays = flow("r", "h0", "h1"), flow("r", "h0", "h2")
    alone_ns = fabric.report("h0", claim(STAR, gone))[gone].alone_ns
    assert fabric.report("h0", claim(STAR, stays))[stays].alone_ns == 2 * alone_ns
    for slot in range(0, 12 * JOB_MEMORY_SLOTS // 10, 2):
        fabric.wait_until(slot * SLOT_NS)
        granted = fabric.report("h0", claim(STAR, stays))
    assert granted[stays].alone_ns == alone_ns


def test_an_upstream_flow_that_no_report_has_named_has_sent_nothing() -> None:
    fabric = Fabric(STAR, "mlcc")
    after = flow("r", "h1", "h2")
    assert fabric.report("h1", claim(STAR, after, upstream=(flow("r", "h0", "h1"),)))[after].upstream_bytes == 0.0


# ---- Entries end ----


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_a_silent_hosts_bandwidth_is_given_to_other_hosts(policy: str) -> None:
    fabric = Fabric(STAR, policy)
    fabric.report("h0", claim(STAR, A, (GBPS,) * HORIZON, urgency=9.0))
    first = fabric.report("h3", claim(STAR, C))[C]
    pushed: dict[FlowId, Grant] = {}
    for slot in range(1, ENTRY_SLOTS + 1):  # h3 goes on reporting, h0 is dead
        pushed |= fabric.wait_until(slot * SLOT_NS)
        grant = fabric.report("h3", claim(STAR, C))[C]
        assert (grant.share_bps, grant.available_bps[0]) == (first.share_bps, first.available_bps[0])
    assert C not in pushed
    pushed = fabric.wait_until((ENTRY_SLOTS + 1) * SLOT_NS + SLOT_NS // 2)
    if policy == "paceline":
        assert pushed[C].share_bps == GBPS
        assert A not in pushed
    assert fabric.report("h3", claim(STAR, C))[C].available_bps[0] == GBPS


def test_without_claims_it_wants_no_timer() -> None:
    fabric = Fabric(STAR, "paceline")
    switch = fabric.switches["sw"]
    assert switch.next_deadline() is None
    fabric.report("h0", claim(STAR, A))
    deadline_ns = switch.next_deadline()
    assert deadline_ns is not None
    assert 0 < deadline_ns <= SLOT_NS
    fabric.report("h0", withdrawn=(A,))
    fabric.wait_until((JOB_MEMORY_SLOTS + REST_SLOTS + 2) * SLOT_NS)  # it may remember the job for a while
    assert switch.next_deadline() is None


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_with_nothing_but_memories_it_wakes_seldom(policy: str) -> None:
    fabric = Fabric(STAR, policy)
    switch = fabric.switches["sw"]
    fabric.report("h0", claim(STAR, A))
    fabric.report("h0", withdrawn=(A,))
    fabric.wait_until(2 * SLOT_NS)
    assert switch.remembers(A.job)
    due_ns = switch.next_deadline()
    assert due_ns is not None and due_ns >= REST_SLOTS * SLOT_NS
    fabric.report("h0", claim(STAR, A))
    due_ns = switch.next_deadline()
    assert due_ns is not None and due_ns <= 3 * SLOT_NS, "somebody claims again"

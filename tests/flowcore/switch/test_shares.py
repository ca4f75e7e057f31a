"""SwitchAgent with an arbiter: shares, the pushes that tell of them, ceilings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.patterns import FlowId
from tests.flowcore.switch.fabric import GBPS, SLOT_NS, STAR, A, B, C, Fabric, claim, flow


def test_a_flow_that_loses_its_share_is_told_at_once() -> None:
    fabric = Fabric(STAR, "fifo")
    assert fabric.report("h0", claim(STAR, A, urgency=1.0))[A].share_bps == GBPS
    granted = fabric.report("h3", claim(STAR, C, urgency=2.0))
    assert set(fabric.inbox) == {"h0", "h3"}  # the answer, and a push to the host whose share changed
    assert granted[C].share_bps == GBPS
    assert granted[A].share_bps == 0.0


def test_no_host_is_told_what_did_not_change() -> None:
    fabric = Fabric(STAR, "fifo")
    fabric.report("h0", claim(STAR, A))
    fabric.report("h2", claim(STAR, flow("d", "h2", "h3")))  # shares no link with A
    assert set(fabric.inbox) == {"h2"}


def test_a_withdrawal_gives_the_share_to_the_next_at_once() -> None:
    fabric = Fabric(STAR, "paceline")
    fabric.report("h0", claim(STAR, A, urgency=2.0))
    assert fabric.report("h3", claim(STAR, C, urgency=1.0))[C].share_bps == 0.0
    assert fabric.report("h0", withdrawn=(A,))[C].share_bps == GBPS
    assert set(fabric.inbox) == {"h3"}


def test_a_job_moves_all_its_flows_at_one_rate() -> None:
    fabric = Fabric(STAR, "paceline")
    ring = [flow("r", f"h{n}", f"h{(n + 1) % 3}") for n in range(3)]
    granted: dict[FlowId, Grant] = {}
    for member in ring:
        granted |= fabric.report(member.source, claim(STAR, member, urgency=3.0))
    crossing = flow("x", "h0", "h3")
    granted |= fabric.report("h0", claim(STAR, crossing, urgency=1.0))
    assert {granted[member].share_bps for member in ring} == {GBPS}
    assert granted[crossing].share_bps == 0.0


def test_the_most_urgent_bid_of_a_job_counts() -> None:
    fabric = Fabric(STAR, "fifo")
    fabric.report("h0", claim(STAR, flow("a", "h0", "h2"), urgency=0.5))
    fabric.report("h3", claim(STAR, C, urgency=1.0))
    granted = fabric.report("h1", claim(STAR, flow("a", "h1", "h2"), urgency=2.0))
    assert granted[flow("a", "h1", "h2")].share_bps == pytest.approx(GBPS / 2)  # two flows into h2


def test_growing_bids_count_within_the_slot() -> None:
    fabric = Fabric(STAR, "fifo")
    fabric.report("h0", claim(STAR, A, urgency=2.0))
    fabric.report("h3", claim(STAR, C, urgency=1.0))
    assert fabric.report("h3", claim(STAR, C, urgency=3.0))[C].share_bps == 0.0  # not at every report ...
    pushed = fabric.wait_until(SLOT_NS)  # ... but soon
    assert (pushed[C].share_bps, pushed[A].share_bps) == (GBPS, 0.0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.floats(0.1, 9.0)), min_size=1, max_size=8),
    st.sampled_from(["fifo", "paceline"]),
)
def test_ceilings_protect_what_other_hosts_were_given(wishes: list[tuple[int, int, float]], policy: str) -> None:
    """On every link but its own NIC, a flow at its ceiling leaves room for the shares of all other hosts."""
    fabric = Fabric(STAR, policy)
    granted: dict[FlowId, Grant] = {}
    for number, (source, step, urgency) in enumerate(wishes):
        one = flow(f"job{number}", f"h{source}", f"h{(source + step) % 4}")
        granted |= fabric.report(one.source, claim(STAR, one, urgency=urgency))
    for one, grant in granted.items():
        assert grant.ceiling_bps >= grant.share_bps
        link = STAR.path(one.source, one.target, str(one))[-1]
        other_hosts_bps = sum(
            other.share_bps
            for which, other in granted.items()
            if which.source != one.source and which.target == one.target
        )
        assert grant.ceiling_bps + other_hosts_bps <= STAR.links[link].capacity_bps * (1 + 1e-9)
    assert fabric.switches["sw"].table.peak_ratio <= 1 + 1e-9


def test_flows_of_one_host_may_borrow_from_each_other() -> None:
    fabric = Fabric(STAR, "fifo")
    granted = fabric.report("h0", claim(STAR, A, urgency=2.0), claim(STAR, B, urgency=1.0))
    assert granted[B].share_bps == 0.0
    assert granted[B].ceiling_bps == GBPS  # HTB on the NIC serves A's guarantee first

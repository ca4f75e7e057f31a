"""Flows whose path crosses several switches: one answer for the whole path, one place that divides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.messages.events import Send, Tick
from paceline.flowcore.messages.reports import Feedback, Grant, Report
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import clos, tree
from tests.flowcore.switch.fabric import FAR, GBPS, HORIZON, SLOT_NS, TREE, Fabric, claim, flow


def test_a_far_flow_hears_the_whole_path() -> None:
    """available = min and load = Σ over the links of five switches."""
    fabric = Fabric(TREE, "mlcc")
    planned_bps = {
        flow("x", "h1", "h2"): 3e8,  # tor0->edge0
        flow("y", "h2", "h6"): 8e8,  # edge0->agg, agg->edge1
        flow("z", "h5", "h4"): 4e8,  # tor2->h4
    }
    for other, rate in planned_bps.items():
        assert fabric.report(other.source, claim(TREE, other, (rate,)))[other].accepted
    granted = fabric.report("h0", claim(TREE, FAR))[FAR]
    loads = dict.fromkeys(claim(TREE, FAR).path, 0.0)
    for other, rate in planned_bps.items():
        for link in claim(TREE, other).path:
            if link in loads:
                loads[link] += rate
    capacity = {link: TREE.links[link].capacity_bps for link in loads}
    assert sum(load > 0.0 for load in loads.values()) == 4
    assert granted.available_bps[0] == pytest.approx(min(capacity[link] - loads[link] for link in loads))
    assert granted.load[0] == pytest.approx(sum(loads[link] / capacity[link] for link in loads))
    assert granted.available_bps[1:] == (GBPS,) * (HORIZON - 1)


def test_one_switch_of_many_refuses() -> None:
    fabric = Fabric(TREE, "mlcc")
    near = flow("z", "h5", "h4")
    fabric.report("h5", claim(TREE, near, (8e8,)))
    refused = fabric.report("h0", claim(TREE, FAR, (5e8,)))[FAR]
    assert not refused.accepted
    assert refused.available_bps[0] == pytest.approx(2e8)
    assert fabric.report("h0", claim(TREE, FAR, (2e8,)))[FAR].accepted


def test_alone_time_is_the_slowest_switchs() -> None:
    fabric = Fabric(tree(2, 2, 2, (1.0, 0.5, 0.25)), "mlcc")
    assert fabric.report("h0", claim(fabric.topology, FAR))[FAR].alone_ns == 800_000_000


def test_a_withdrawal_reaches_every_switch() -> None:
    fabric = Fabric(TREE, "paceline")
    fabric.report("h0", claim(TREE, FAR))
    on_path = [name for name, switch in fabric.switches.items() if FAR in switch.table]
    assert sorted(on_path) == ["agg", "edge0", "edge1", "tor0", "tor2"]
    fabric.report("h0", withdrawn=(FAR,))
    assert not any(FAR in switch.table for switch in fabric.switches.values())


def test_volumes_are_relayed_across_racks() -> None:
    """A ring over two racks: the feeder's F is known to the sender's ToR, which tables its last link."""
    fabric = Fabric(TREE, "mlcc")
    before, after = flow("r", "h0", "h4"), flow("r", "h4", "h0")
    fabric.report("h0", claim(TREE, before, sent_bytes=7e6))
    granted = fabric.report("h4", claim(TREE, after, upstream=(before,), downstream=(before,)))[after]
    assert granted.upstream_bytes == 7e6
    assert granted.downstream_bytes == 7e6


def test_on_a_clos_only_the_chosen_spine_is_asked() -> None:
    topology = clos(2, 2, 2, (1.0, 1.0))
    fabric = Fabric(topology, "mlcc")
    names = [flow(f"job{number}", "h0", "h2") for number in range(8)]
    spines = {which: topology.path("h0", "h2", str(which))[1].split("->")[1] for which in names}
    assert set(spines.values()) == {"spine0", "spine1"}  # both are used by some flow
    for which in names:
        fabric.report("h0", claim(topology, which))
        asked = [name for name, switch in fabric.switches.items() if which in switch.table]
        assert sorted(asked) == sorted(["tor0", spines[which], "tor1"])


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 7), st.floats(0.0, 1e9)), max_size=12))
def test_no_link_of_any_switch_is_overplanned(wishes: list[tuple[int, int, float]]) -> None:
    for topology in (TREE, clos(2, 4, 2, (1.0, 0.5))):
        fabric = Fabric(topology, "mlcc")
        for number, (source, step, rate) in enumerate(wishes):
            one = flow(f"job{number}", f"h{source}", f"h{(source + step) % 8}")
            fabric.report(one.source, claim(topology, one, (rate,) * HORIZON))
        assert all(switch.table.peak_ratio <= 1 + 1e-9 for switch in fabric.switches.values())


def test_a_silent_switch_is_answered_for_with_what_it_last_said_about_those_slots() -> None:
    fabric = Fabric(TREE, "mlcc")
    fabric.report("h5", claim(TREE, flow("z", "h5", "h4"), (8e8, 0.0, 0.0)))  # loads slot 0 only
    assert fabric.report("h0", claim(TREE, FAR))[FAR].available_bps[0] == 2e8
    tor, now_ns = fabric.switches["tor0"], 2 * SLOT_NS
    tor.handle(Report(sender="h0", number=fabric.number + 1, first_slot=2, claims=(claim(TREE, FAR),)), now_ns)
    answers = [
        effect.message
        for half_slots in range(1, 8)
        for effect in tor.handle(Tick(), now_ns + half_slots * SLOT_NS // 2)
        if isinstance(effect, Send) and effect.to == "h0"
    ]
    assert isinstance(answers[-1], Feedback)
    assert answers[-1].grants[0].available_bps[0] == GBPS


# ---- Links where flows of several racks meet ----


def test_jobs_that_meet_beyond_their_racks_are_divided_in_one_place() -> None:
    fabric = Fabric(TREE, "fifo")
    rival = flow("rival", "h2", "h4")  # another rack, the same target
    fabric.report("h2", claim(TREE, rival, urgency=9.0))
    granted = fabric.report("h0", claim(TREE, FAR, urgency=1.0))[FAR]
    assert granted.share_bps == 0.0
    assert granted.ceiling_bps == 0.0
    assert fabric.report("h2", withdrawn=(rival,))[FAR].share_bps == GBPS  # pushed across the tree
    assert set(fabric.inbox) == {"h0"}


@pytest.mark.parametrize("role", [Role.RING, Role.PUSH])
def test_a_flow_from_elsewhere_counts_when_its_last_link_is_divided(role: Role) -> None:
    """h5->h4 stays inside tor2, h0->h4 comes from another edge: tor2 alone would give its link away twice."""
    fabric = Fabric(TREE, "fifo")
    near, far = flow("near", "h5", "h4", role), flow("far", "h0", "h4", role)
    grants = fabric.report("h5", claim(TREE, near, urgency=9.0))
    grants |= fabric.report("h0", claim(TREE, far, urgency=1.0))
    assert (grants[near].share_bps, grants[far].share_bps) == (GBPS, 0.0)


@pytest.mark.parametrize("order", [("h2", "h0"), ("h0", "h2")])
def test_a_job_with_a_flow_from_elsewhere_is_divided_in_one_place(order: tuple[str, str]) -> None:
    """Above, because of that flow, and so are its rivals here, which the flow itself never meets."""
    fabric = Fabric(TREE, "fifo")
    near, far, rival = flow("ring", "h0", "h1"), flow("ring", "h2", "h0"), flow("rival", "h0", "h1")
    claims = {
        "h2": [claim(TREE, far, urgency=1.0)],
        "h0": [claim(TREE, near, urgency=1.0), claim(TREE, rival, urgency=9.0)],
    }
    grants: dict[FlowId, Grant] = {}
    for host in order:
        grants |= fabric.report(host, *claims[host])
    assert (grants[rival].share_bps, grants[near].share_bps, grants[far].share_bps) == (GBPS, 0.0, 0.0)

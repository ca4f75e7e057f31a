"""Soft state: a restarted switch, one whose clock is set back, and what is kept of jobs that are gone."""

from collections import deque

import pytest

from paceline.flowcore.messages.events import PeersFound, PeersLost, Tick
from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.topology import tree
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.flowcore.switch.claims import JOB_MEMORY_SLOTS
from paceline.flowcore.switch.load_table import ENTRY_SLOTS
from tests.flowcore.switch.fabric import GBPS, HORIZON, SLOT_NS, STAR, TREE, A, B, C, Fabric, claim, flow


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_a_restarted_switch_is_rebuilt_by_the_next_reports(policy: str) -> None:
    def reports(fabric: Fabric) -> dict[FlowId, Grant]:
        latest = fabric.report("h0", claim(STAR, A, (4e8,) * HORIZON, sent_bytes=3e6), claim(STAR, B))
        return latest | fabric.report("h3", claim(STAR, C, (3e8,) * HORIZON, upstream=(A,)))

    fabric = Fabric(STAR, policy)
    reports(fabric)
    before = reports(fabric)
    fabric.switches["sw"] = fabric.fresh("sw")
    reports(fabric)
    assert reports(fabric) == before


@pytest.mark.parametrize("lost", ["tor0", "edge0"])
def test_a_child_restarted_before_its_claims_end_gets_its_shares_again(lost: str) -> None:
    """To its parent nothing has changed; that the child is back must be news enough."""
    topology = tree(2, 1, 2, (1.0, 1.0, 1.0))  # tor0 - edge0 - agg - edge1 - tor1
    fabric = Fabric(topology, "paceline")
    far = flow("far", "h0", "h2")
    assert fabric.report("h0", claim(topology, far))[far].share_bps == GBPS
    fabric.now_ns += SLOT_NS
    above = topology.parents[lost][0]
    fabric.switches[lost] = fabric.fresh(lost)
    fabric.tell(above, PeersFound((lost,)))
    if lost == "edge0":
        fabric.tell("tor0", PeersLost((lost,)))
        fabric.tell("tor0", PeersFound((lost,)))
    assert fabric.report("h0", claim(topology, far))[far].share_bps == GBPS


def held(switch: SwitchAgent) -> int:
    """Everything it keeps, in entries."""
    parts = [part for part in vars(switch).values() if type(part).__module__.startswith("paceline.flowcore.switch")]
    return sum(
        len(value)
        for owner in (switch, switch.table, *parts)
        for value in vars(owner).values()
        if isinstance(value, dict | list | set | deque)
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_memory_is_bounded_while_jobs_come_and_go(policy: str) -> None:
    fabric = Fabric(TREE, policy)
    sizes = []
    for number in range(120):
        start_ns = number * 50 * SLOT_NS
        fabric.wait_until(start_ns)
        one = flow(f"job{number}", "h0", f"h{1 + number % 7}")
        for slot in range(3):
            fabric.wait_until(start_ns + slot * SLOT_NS)
            fabric.report("h0", claim(TREE, one, (1e8,)))
        if number % 2:
            fabric.report("h0", withdrawn=(one,))  # the even jobs just fall silent
        sizes.append(sum(held(switch) for switch in fabric.switches.values()))
    warm = 2 * JOB_MEMORY_SLOTS // 50
    assert max(sizes[warm:]) <= max(sizes[:warm]) * 1.1


# ---- A clock that is set back ----


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_a_switch_whose_clock_is_set_back_begins_anew(policy: str) -> None:
    """Entries and plans are dated in a time to come: they go, and what hosts say next counts as after a restart."""
    fabric = Fabric(STAR, policy, now_ns=1000 * SLOT_NS)
    fabric.report("h0", claim(STAR, A, (GBPS,) * HORIZON))
    fabric.now_ns = 500 * SLOT_NS
    fabric.tell("sw", Tick())
    switch = fabric.switches["sw"]
    assert A not in switch.table
    fabric.report("h3", claim(STAR, C, (GBPS,) * HORIZON))
    assert switch.table.load_bps("sw->h1", fabric.slot) == GBPS
    refused = fabric.report("h0", claim(STAR, A, (GBPS,) * HORIZON))
    assert not refused[A].accepted  # it counts again what it has promised
    deadline_ns = switch.next_deadline()
    assert deadline_ns is not None and deadline_ns - fabric.now_ns <= SLOT_NS
    fabric.wait_until(fabric.now_ns + (ENTRY_SLOTS + 2) * SLOT_NS)
    assert len(switch.table) == 0  # and entries end


def test_after_a_step_back_the_parent_is_asked_anew() -> None:
    """tor0 has forgotten the shares it was given; its parent, whose clock was right, must give them again."""
    topology = tree(2, 2, 1, (1.0, 1.0, 1.0))
    fabric = Fabric(topology, "paceline", now_ns=1000 * SLOT_NS)
    far = flow("far", "h0", "h2")
    assert fabric.report("h0", claim(topology, far))[far].share_bps == GBPS
    fabric.behind_ns["tor0"] = 2 * SLOT_NS
    assert fabric.report("h0", claim(topology, far))[far].share_bps == GBPS


def test_after_a_step_back_other_switches_hear_that_a_flow_is_through() -> None:
    """tor0 has forgotten which switches it had told of it."""
    topology = tree(2, 2, 1, (1.0, 1.0, 1.0))
    fabric = Fabric(topology, "mlcc", now_ns=1000 * SLOT_NS)
    far = flow("far", "h0", "h2")
    fabric.report("h0", claim(topology, far))
    others = [switch for switch in fabric.switches.values() if switch.name != "tor0" and far in switch.table]
    assert others
    fabric.behind_ns["tor0"] = 2 * SLOT_NS
    fabric.report("h0", withdrawn=(far,))
    assert not any(far in switch.table for switch in others)

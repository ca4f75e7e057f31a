"""Renewed bids on their way up a tree."""

from paceline.flowcore.model.topology import tree
from paceline.sim.array.bid_propagation import BidPropagation

D = 2  # the latency
EDGE, AGG = 2 * D, 3 * D  # delays: where a group is arbitrated
HALF_SLOT = 30
LATER = 1000


class Clock:
    def __init__(self, first_half_slot: int = LATER) -> None:
        self.bids = BidPropagation(tree(1, 2, 2, [1.0, 1.0, 1.0]), D, HALF_SLOT, first_half_slot)

    def heard(self, tor: str, delay: int, now: int) -> int:
        return self.bids.heard_ns(tor, delay, now)


def test_a_host_by_itself_and_a_tor_know_at_once_what_has_arrived() -> None:
    clock = Clock()
    assert clock.heard("tor0", 0, 100) == 100
    assert clock.heard("tor0", D, 100) == 100 - D


def test_a_tier_takes_half_a_slot_when_nothing_happens() -> None:
    clock = Clock(first_half_slot=0)
    assert clock.heard("tor0", EDGE, 30 + D - 1) == -D
    assert clock.heard("tor0", EDGE, 30 + D) == 30 - D
    assert clock.heard("tor0", AGG, 60 + D - 1) < 0
    assert clock.heard("tor0", AGG, 60 + D) == 30 - D


def test_a_claim_takes_along_what_the_switches_on_its_way_have_heard() -> None:
    clock = Clock()
    clock.bids.changed("tor0", AGG, (), 10)
    assert clock.heard("tor0", EDGE, 10 + 2 * D) == 10
    assert clock.heard("tor0", AGG, 10 + 3 * D) == 10
    assert clock.heard("tor1", AGG, 10 + 3 * D) == 0


def test_a_flow_that_passes_makes_a_switch_reallocate() -> None:
    clock = Clock()
    clock.bids.changed("tor0", AGG, ("agg", "edge1", "tor2"), 10)
    assert clock.heard("tor2", EDGE, 10 + 3 * D - 1) == 0
    assert clock.heard("tor2", EDGE, 10 + 3 * D) == 10 + D
    assert clock.heard("tor3", EDGE, 10 + 3 * D) == 0


def test_a_look_after_a_long_time_finds_the_last_half_slots() -> None:
    looked_always, looked_once = Clock(0), Clock(0)
    for now in range(10, 5000, 10):
        looked_always.heard("tor0", AGG, now)
    assert looked_once.heard("tor0", AGG, 5000) == looked_always.heard("tor0", AGG, 5000) == 4950 - D

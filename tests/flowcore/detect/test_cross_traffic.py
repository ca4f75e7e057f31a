"""Cross traffic: noticed from what flows were promised and did not get, and no job waits for a turn beside it."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.detect.cross_traffic import (
    CARRIED,
    ENOUGH_SLOTS,
    FRESH_SLOTS,
    HOLD_SLOTS,
    RECENT_SLOTS,
    STILL,
    CrossTrafficDetector,
)
from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.scenario import CrossTraffic, JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.flowcore.model.units import transfer_bytes
from paceline.flowcore.policy.paceline import arbitrate
from paceline.flowcore.switch.arbitration import Arbitration
from paceline.sim.run import run

SLOT_NS = 60_000_000
GBPS = 1e9
UP, DOWN = "h0->sw", "sw->h1"
LINKS = {UP: GBPS, DOWN: GBPS, "sw->h2": GBPS, "h3->sw": GBPS}
SLOTFUL = transfer_bytes(GBPS, SLOT_NS)


def claim(job: str, path: tuple[str, ...] = (UP, DOWN), sent: float = 0.0, promised: float = 0.0) -> Claim:
    source, target = path[0].partition("->")[0], path[-1].partition("->")[2]
    flow = FlowId(job, source, target, Role.RING)
    return Claim(flow, path, 25e6, Bid(1.0, 1e8, 1e8), sent, 0.0, (), (), (), promised)


class Link:
    """One flow that reports every slot, promised so much of the link and carrying so much of it."""

    def __init__(self, *, weighable: bool = False, weighs: bool = True) -> None:
        self.detector = CrossTrafficDetector(LINKS, SLOT_NS, weighs=weighs)
        self.now_ns, self.sent, self.promised, self.weighable = 0, 0.0, 0.0, weighable
        self.slots(1, 0.0, 0.0)

    def slots(self, count: int, carried: float, promised: float = 1.0) -> bool:
        """Whether the link is shared with cross traffic at the end."""
        for _ in range(count):
            self.now_ns += SLOT_NS
            self.sent += carried * SLOTFUL
            self.promised += promised * SLOTFUL
            one = claim("a", sent=self.sent, promised=self.promised)._replace(weighable=self.weighable)
            self.detector.heard(one, self.now_ns)
        return UP in self.detector.found(self.now_ns).now


def test_hosts_slower_than_their_link_do_not_give_up_turns_for_ever() -> None:
    """Jobs collide once before all have joined; then each carries 0.85 of the link, and no other flow is there."""
    link = Link()
    assert link.slots(ENOUGH_SLOTS, carried=0.5)
    assert link.slots(HOLD_SLOTS, carried=0.85), "it may be cross traffic"
    assert not link.slots(3 * HOLD_SLOTS, carried=0.85)
    assert not link.slots(20 * HOLD_SLOTS, carried=0.85)


def test_who_can_be_stood_for_is_believed_sooner() -> None:
    """Three flows beside one carry three quarters, and turns without weights are not tried."""
    link = Link(weighable=True)
    assert not link.slots(1, carried=0.75), "too soon to say"
    assert link.slots(1, carried=0.75)
    assert all(link.slots(1, carried=0.85) for _ in range(10 * HOLD_SLOTS))
    assert not link.slots(2, carried=0.95)
    assert not Link(weighable=True).slots(20, carried=0.86)
    assert not Link(weighable=True, weighs=False).slots(20, carried=0.75), "the operator yields"


def test_one_flow_that_cannot_be_weighed_and_the_link_is_judged_as_any() -> None:
    link, other = Link(weighable=True), claim("b")
    link.detector.heard(other, link.now_ns)
    assert not link.slots(20, carried=0.75)
    link.detector.forget(other.flow)
    assert link.slots(2, carried=0.75)
    assert not link.slots(2, carried=1.0)
    link.detector.heard(other, link.now_ns)
    link.detector.heard(other._replace(weighable=True), link.now_ns)  # its hostd was started anew
    assert link.slots(2, carried=0.75)


def test_turns_beside_cross_traffic_are_tried_less_and_less() -> None:
    """Alone a flow gets a half; as many flows as there are of cross traffic, three quarters."""
    link, shared = Link(), []
    for _ in range(100 * HOLD_SLOTS):
        shared.append(link.slots(1, carried=0.75 if shared and shared[-1] else 0.5))
    tries = [number for number in range(1, len(shared)) if shared[number - 1] and not shared[number]]
    waits = [after - before for before, after in pairwise(tries)]
    assert 2 <= len(tries) <= 6 and all(after > 1.5 * before for before, after in pairwise(waits))
    assert shared.count(False) <= (len(tries) + 1) * ENOUGH_SLOTS


def test_half_of_what_was_promised_is_cross_traffic() -> None:
    link = Link()
    assert not link.slots(ENOUGH_SLOTS - 1, carried=0.5), "too soon to say"
    assert link.slots(1, carried=0.5)
    assert link.detector.found(link.now_ns) == ({UP, DOWN}, {UP: 0.5, DOWN: 0.5})


@given(st.floats(CARRIED + 0.01, 1.5), st.integers(1, 100))
def test_nearly_all_of_it_is_none(carried: float, slots: int) -> None:
    assert not Link().slots(slots, carried)


@given(st.floats(0.0, 0.9 * ENOUGH_SLOTS / FRESH_SLOTS), st.integers(1, 100))
def test_a_flow_that_was_promised_little_says_nothing(promised: float, slots: int) -> None:
    """A flow that needs little, or that had nothing to send: its host counts no promise then."""
    assert not Link().slots(slots, carried=0.0, promised=promised)


def test_a_shared_link_stays_so_until_jobs_carry_all_of_it() -> None:
    link = Link()
    link.slots(ENOUGH_SLOTS, carried=0.5)
    assert link.slots(4 * ENOUGH_SLOTS, carried=2 / 3), "two flows beside one of cross traffic"
    assert link.slots(ENOUGH_SLOTS, carried=STILL - 0.01)
    assert not link.slots(ENOUGH_SLOTS, carried=STILL + 0.01)


def test_cross_traffic_that_was_there_is_not_forgotten_at_once() -> None:
    link = Link()
    assert not link.detector.found(link.now_ns).recent
    link.slots(ENOUGH_SLOTS, carried=0.5)
    assert not link.slots(RECENT_SLOTS - 1, carried=1.0)
    assert link.detector.found(link.now_ns) == (set(), {UP: 0.5, DOWN: 0.5})
    link.slots(1, carried=1.0)
    assert not link.detector.found(link.now_ns).recent


def test_what_those_who_wait_carry_is_not_counted_as_the_senders() -> None:
    link, waiting = Link(weighable=True), claim("b")._replace(weighable=True)
    link.detector.heard(waiting, link.now_ns)
    link.detector.heard(waiting._replace(sent_bytes=0.2 * SLOTFUL), link.now_ns)
    assert link.slots(2, carried=0.6)
    assert link.detector.found(link.now_ns).recent[UP] == pytest.approx(0.6)


def test_it_is_tried_again_when_no_flow_reports() -> None:
    link = Link()
    link.slots(ENOUGH_SLOTS, carried=0.5)
    assert link.detector.found(link.now_ns + (HOLD_SLOTS - 1) * SLOT_NS).now
    assert not link.detector.found(link.now_ns + HOLD_SLOTS * SLOT_NS).now


def test_a_claim_that_comes_back_begins_anew() -> None:
    link = Link()
    link.slots(ENOUGH_SLOTS - 1, carried=1.0)
    link.detector.forget(claim("a").flow)
    link.promised += 100 * SLOTFUL  # meanwhile
    assert not link.slots(1, carried=1.0)


# ---- What follows from it ----


def arbitration_with(shared: bool) -> Arbitration:
    arbitration = Arbitration(LINKS, arbitrate, detector=CrossTrafficDetector(LINKS, SLOT_NS))
    share = 0.5 if shared else 1.0
    for slot in range(ENOUGH_SLOTS + 1):
        arbitration.put([claim("a", sent=share * slot * SLOTFUL, promised=slot * SLOTFUL)], slot, slot * SLOT_NS)
    return arbitration


def reallocated(arbitration: Arbitration, *claims: Claim) -> dict[str, tuple[float, float]]:
    arbitration.put(claims, ENOUGH_SLOTS + 1, (ENOUGH_SLOTS + 1) * SLOT_NS)
    arbitration.reallocate((ENOUGH_SLOTS + 1) * SLOT_NS)
    return {flow.job: (share.share_bps, share.ceiling_bps) for flow, share in arbitration.shares.items()}


def test_jobs_take_turns_on_a_link_without_cross_traffic() -> None:
    shares = reallocated(arbitration_with(shared=False), claim("b", ("h3->sw", DOWN)))
    assert sorted(shares.values()) == [(0.0, 0.0), (GBPS, GBPS)]


def test_no_job_waits_beside_cross_traffic() -> None:
    shares = reallocated(arbitration_with(shared=True), claim("b", ("h3->sw", DOWN)))
    assert shares == {"a": (GBPS / 2, GBPS), "b": (GBPS / 2, GBPS)}


def test_a_job_that_meets_no_cross_traffic_takes_turns_in_the_rest() -> None:
    """b and c meet on the way to h2; b also crosses the shared link."""
    shares = reallocated(arbitration_with(shared=True), claim("b", (UP, "sw->h2")), claim("c", ("h3->sw", "sw->h2")))
    assert shares["a"] == shares["b"] == (GBPS / 2, GBPS)
    assert shares["c"] == pytest.approx((GBPS / 2, GBPS / 2))


@given(
    st.lists(
        st.sampled_from([(UP, DOWN), (UP, "sw->h2"), ("h3->sw", "sw->h2"), ("h3->sw", DOWN)]), min_size=1, max_size=8
    )
)
def test_shares_stay_within_capacity(paths: list[tuple[str, ...]]) -> None:
    arbitration = arbitration_with(shared=True)
    reallocated(arbitration, *(claim(f"j{number}", path) for number, path in enumerate(paths)))
    taken = dict.fromkeys(LINKS, 0.0)
    for one in [claim("a"), *(claim(f"j{number}", path) for number, path in enumerate(paths))]:
        for link in one.path:
            taken[link] += arbitration.shares[one.flow].share_bps
    assert max(taken.values()) <= GBPS * (1 + 1e-9)


def test_beside_cross_traffic_no_worse_than_tcp_and_better_alone() -> None:
    """Three rings meet at h0, and an iperf comes too."""
    jobs = tuple(
        JobSpec(f"j{number}", Pattern.ALLREDUCE, ("h0", f"h{number}"), (), 10.0 + number, 0.6, None, 0.0, 0.0)
        for number in (1, 2, 3)
    )
    burst = CrossTraffic("h4", "h0", 2.0, (1.6, 2.0), 0.4)
    alone = Scenario("alone", 1, 20.0, SlotsSpec(), star(5, 0.4), jobs, ())
    beside = replace(alone, name="beside", cross_traffic=(burst,))
    ours, tcp = (run(beside, policy).mean_slowdown for policy in ("paceline", "fair"))
    assert ours < tcp
    ours, tcp = (run(alone, policy).mean_slowdown for policy in ("paceline", "fair"))
    assert ours < 0.95 * tcp

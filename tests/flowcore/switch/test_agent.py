"""SwitchAgent alone: replies, pushes, leases, refusals, relayed volumes, federation, soft state."""

from collections import deque
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.messages.events import Effect, PeersFound, PeersLost, Send, SwitchEvent, Tick
from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology, clos, star, tree
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.flowcore.switch.claims import JOB_MEMORY_SLOTS
from paceline.flowcore.switch.load_table import ENTRY_SLOTS

SLOT_NS = 60_000_000
HORIZON = 10
CLOCK = SlotClock(SLOT_NS, HORIZON)
GBPS = 1e9
numbers = count(1)


def flow(job: str, source: str, target: str, role: Role = Role.RING) -> FlowId:
    return FlowId(job, source, target, role)


def claim(
    topology: Topology,
    which: FlowId,
    plan_bps: tuple[float, ...] = (),
    *,
    urgency: float = 1.0,
    size_bytes: float = 25e6,
    sent_bytes: float = 0.0,
    planned_bytes: float = 0.0,
    upstream: tuple[FlowId, ...] = (),
    downstream: tuple[FlowId, ...] = (),
) -> Claim:
    return Claim(
        flow=which,
        path=topology.path(which.source, which.target, str(which)),
        size_bytes=size_bytes,
        bid=Bid(urgency, 1e8, 1e8),
        sent_bytes=sent_bytes,
        planned_bytes=planned_bytes,
        upstream=upstream,
        downstream=downstream,
        plan_bps=plan_bps,
    )


@dataclass
class Fabric:
    """Every switch of a topology; messages arrive at once. What hosts would receive is kept by host."""

    topology: Topology
    policy: str
    now_ns: int = 0
    inbox: dict[str, list[Feedback]] = field(default_factory=dict)
    behind_ns: dict[str, int] = field(default_factory=dict)  # by switch

    def __post_init__(self) -> None:
        self.switches = {name: self.fresh(name) for name in self.topology.switches}

    def fresh(self, name: str) -> SwitchAgent:
        return SwitchAgent(name, domains(self.topology)[name], CLOCK, POLICIES[self.policy]())

    @property
    def slot(self) -> int:
        return CLOCK.index(self.now_ns)

    def report(self, host: str, *claims: Claim, withdrawn: tuple[FlowId, ...] = ()) -> dict[FlowId, Grant]:
        """Everything hosts hear because of this report; the latest grant of each flow."""
        gone = tuple(Withdrawal(which, 25e6) for which in withdrawn)
        report = Report(sender=host, number=next(numbers), first_slot=self.slot, claims=claims, withdrawn=gone)
        return self.tell(self.topology.switch_of[host], report)

    def tell(self, switch: str, event: SwitchEvent) -> dict[FlowId, Grant]:
        self.inbox = {}
        queue = deque(self.handle(switch, event))
        while queue:
            effect = queue.popleft()
            assert isinstance(effect, Send)
            if effect.to in self.switches:
                queue.extend(self.handle(effect.to, effect.message))
            else:
                assert isinstance(effect.message, Feedback)
                self.inbox.setdefault(effect.to, []).append(effect.message)
        received = (feedback for got in self.inbox.values() for feedback in got)
        return {grant.flow: grant for feedback in received for grant in feedback.grants}

    def handle(self, switch: str, event: SwitchEvent) -> list[Effect]:
        return self.switches[switch].handle(event, self.now_ns - self.behind_ns.get(switch, 0))

    def wait_until(self, now_ns: int) -> dict[FlowId, Grant]:
        """Ticks as they fall due; what was pushed meanwhile."""
        pushed: dict[FlowId, Grant] = {}
        while True:
            due = {name: agent.next_deadline() for name, agent in self.switches.items()}
            soonest = min((d for d in due.values() if d is not None), default=None)
            if soonest is None or soonest > now_ns:
                self.now_ns = now_ns
                return pushed
            self.now_ns = soonest
            for name, deadline in due.items():
                if deadline == soonest:
                    pushed |= self.tell(name, Tick())


STAR = star(4, 1.0)
A, B, C = flow("a", "h0", "h1"), flow("b", "h0", "h2"), flow("c", "h3", "h1")


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


def test_a_plan_is_seen_by_others_and_not_by_its_flow() -> None:
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


def test_it_relays_the_least_of_the_preds_and_the_most_of_the_followers() -> None:
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


def test_a_pred_that_is_through_is_remembered() -> None:
    fabric = Fabric(STAR, "mlcc")
    before, after = flow("r", "h0", "h1"), flow("r", "h1", "h2")
    fabric.report("h0", claim(STAR, before, sent_bytes=2e7))
    fabric.report("h0", withdrawn=(before,))
    assert fabric.report("h1", claim(STAR, after, upstream=(before,)))[after].upstream_bytes == 2.5e7


def test_nobody_waits_for_a_pred_whose_host_is_silent() -> None:
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


def test_a_pred_that_nobody_heard_of_has_sent_nothing() -> None:
    fabric = Fabric(STAR, "mlcc")
    after = flow("r", "h1", "h2")
    assert fabric.report("h1", claim(STAR, after, upstream=(flow("r", "h0", "h1"),)))[after].upstream_bytes == 0.0


# ---- Arbitration and pushes ----


def test_whoever_loses_its_share_is_told_at_once() -> None:
    fabric = Fabric(STAR, "fifo")
    assert fabric.report("h0", claim(STAR, A, urgency=1.0))[A].share_bps == GBPS
    granted = fabric.report("h3", claim(STAR, C, urgency=2.0))
    assert set(fabric.inbox) == {"h0", "h3"}  # the answer, and a push to the host whose share changed
    assert granted[C].share_bps == GBPS
    assert granted[A].share_bps == 0.0


def test_nobody_is_told_what_did_not_change() -> None:
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


def test_growing_bids_are_settled_within_the_slot() -> None:
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
    fabric, granted = Fabric(STAR, policy), {}
    for number, (source, step, urgency) in enumerate(wishes):
        one = flow(f"job{number}", f"h{source}", f"h{(source + step) % 4}")
        granted |= fabric.report(one.source, claim(STAR, one, urgency=urgency))
    for one, grant in granted.items():
        assert grant.ceiling_bps >= grant.share_bps
        link = STAR.path(one.source, one.target, str(one))[-1]
        others = sum(
            other.share_bps
            for which, other in granted.items()
            if which.source != one.source and which.target == one.target
        )
        assert grant.ceiling_bps + others <= STAR.links[link].capacity_bps * (1 + 1e-9)
    assert fabric.switches["sw"].table.peak_ratio <= 1 + 1e-9


def test_flows_of_one_host_may_borrow_from_each_other() -> None:
    fabric = Fabric(STAR, "fifo")
    granted = fabric.report("h0", claim(STAR, A, urgency=2.0), claim(STAR, B, urgency=1.0))
    assert granted[B].share_bps == 0.0
    assert granted[B].ceiling_bps == GBPS  # HTB on the NIC serves A's guarantee first


# ---- Leases ----


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_a_silent_hosts_bandwidth_is_given_to_others(policy: str) -> None:
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
    fabric.wait_until((JOB_MEMORY_SLOTS + 2) * SLOT_NS)  # it may remember the job for a while
    assert switch.next_deadline() is None


# ---- Federation ----

TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))
FAR = flow("far", "h0", "h4")  # tor0 - edge0 - agg - edge1 - tor2


def test_a_far_flow_hears_the_whole_path() -> None:
    """available = min and load = Σ over the links of five switches."""
    fabric = Fabric(TREE, "mlcc")
    others = {
        flow("x", "h1", "h2"): 3e8,  # tor0->edge0
        flow("y", "h2", "h6"): 8e8,  # edge0->agg, agg->edge1
        flow("z", "h5", "h4"): 4e8,  # tor2->h4
    }
    for other, rate in others.items():
        assert fabric.report(other.source, claim(TREE, other, (rate,)))[other].accepted
    granted = fabric.report("h0", claim(TREE, FAR))[FAR]
    loads = dict.fromkeys(claim(TREE, FAR).path, 0.0)
    for other, rate in others.items():
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


def test_jobs_that_meet_beyond_their_racks_are_divided_in_one_place() -> None:
    fabric = Fabric(TREE, "fifo")
    rival = flow("rival", "h2", "h4")  # another rack, the same target
    fabric.report("h2", claim(TREE, rival, urgency=9.0))
    granted = fabric.report("h0", claim(TREE, FAR, urgency=1.0))[FAR]
    assert granted.share_bps == 0.0
    assert granted.ceiling_bps == 0.0
    assert fabric.report("h2", withdrawn=(rival,))[FAR].share_bps == GBPS  # pushed across the tree
    assert set(fabric.inbox) == {"h0"}


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


# ---- Soft state ----


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


def held(switch: SwitchAgent) -> int:
    """Everything it keeps, in entries."""
    parts = [part for part in vars(switch).values() if type(part).__module__.startswith("paceline.flowcore.switch")]
    return sum(
        len(value)
        for owner in (switch, switch.table, *parts)
        for value in vars(owner).values()
        if isinstance(value, dict | list | set | deque)
    )


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
            fabric.report("h0", withdrawn=(one,))  # the others just fall silent
        sizes.append(sum(held(switch) for switch in fabric.switches.values()))
    settled = 2 * JOB_MEMORY_SLOTS // 50
    assert max(sizes[settled:]) <= max(sizes[:settled]) * 1.1


# ---- Links where flows of several racks meet ----


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
    """Above, because of that flow, and so are its rivals here, whom the flow itself never meets."""
    fabric = Fabric(TREE, "fifo")
    near, far, rival = flow("ring", "h0", "h1"), flow("ring", "h2", "h0"), flow("rival", "h0", "h1")
    claims = {
        "h2": [claim(TREE, far, urgency=1.0)],
        "h0": [claim(TREE, near, urgency=1.0), claim(TREE, rival, urgency=9.0)],
    }
    grants = {}
    for host in order:
        grants |= fabric.report(host, *claims[host])
    assert (grants[rival].share_bps, grants[near].share_bps, grants[far].share_bps) == (GBPS, 0.0, 0.0)


def test_a_silent_switch_is_answered_for_with_what_it_last_said_about_those_slots() -> None:
    fabric = Fabric(TREE, "mlcc")
    fabric.report("h5", claim(TREE, flow("z", "h5", "h4"), (8e8, 0.0, 0.0)))  # loads slot 0 only
    assert fabric.report("h0", claim(TREE, FAR))[FAR].available_bps[0] == 2e8
    tor, now_ns = fabric.switches["tor0"], 2 * SLOT_NS
    tor.handle(Report(sender="h0", number=next(numbers), first_slot=2, claims=(claim(TREE, FAR),)), now_ns)
    answers = [
        effect.message
        for half_slots in range(1, 8)
        for effect in tor.handle(Tick(), now_ns + half_slots * SLOT_NS // 2)
        if effect.to == "h0"
    ]
    assert answers[-1].grants[0].available_bps[0] == GBPS


# ---- A clock that is set back ----


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_a_switch_whose_clock_is_set_back_begins_anew(policy: str) -> None:
    """Leases and plans are dated in a time to come: they go, and what hosts say next counts as after a restart."""
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
    assert len(switch.table) == 0  # and leases end


@pytest.mark.parametrize("lost", ["tor0", "edge0"])
def test_a_child_restarted_within_its_lease_gets_its_shares_again(lost: str) -> None:
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


def test_after_a_step_back_the_parent_is_asked_anew() -> None:
    """tor0 has forgotten the shares it was given; its parent, whose clock was right, must give them again."""
    topology = tree(2, 2, 1, (1.0, 1.0, 1.0))
    fabric = Fabric(topology, "paceline", now_ns=1000 * SLOT_NS)
    far = flow("far", "h0", "h2")
    assert fabric.report("h0", claim(topology, far))[far].share_bps == GBPS
    fabric.behind_ns["tor0"] = 2 * SLOT_NS
    assert fabric.report("h0", claim(topology, far))[far].share_bps == GBPS

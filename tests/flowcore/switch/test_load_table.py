"""The load table (§IV-A): its laws, one by one and under any interleaving."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.switch.load_table import ENTRY_SLOTS, SLACK, LoadTable, Rates

HORIZON = 4
CAPACITY_BPS = {"h0->sw": 10.0, "h1->sw": 10.0, "sw->h0": 7.0, "sw->h1": 3.0}
PATHS = (
    ("h0->sw", "sw->h1"),
    ("h0->sw", "sw->h0"),
    ("h1->sw", "sw->h0"),
    ("h1->sw", "sw->h1"),
    ("h0->sw", "sw->h2"),  # its last link belongs to another table
    ("h1->sw",),
)
FLOWS = tuple(FlowId(f"job{number}", "h0", "h1", Role.RING) for number in range(len(PATHS)))
PATH_OF = dict(zip(FLOWS, PATHS, strict=True))

rates = st.one_of(st.just(0.0), st.sampled_from([1.0, 3.0, 7.0, 10.0]), st.floats(0.0, 12.0))
plans = st.lists(rates, min_size=1, max_size=HORIZON).map(tuple)
flows = st.sampled_from(FLOWS)


@dataclass(frozen=True)
class Plan:
    first_slot: int
    rates_bps: Rates

    def at(self, slot: int) -> float:
        offset = slot - self.first_slot
        return self.rates_bps[offset] if 0 <= offset < len(self.rates_bps) else 0.0


def enter(table: LoadTable, flow: FlowId, plan: Plan, now_slot: int) -> bool:
    return table.enter({flow: plan.rates_bps}, plan.first_slot, now_slot)[flow]


def view(table: LoadTable, flow: FlowId, first_slot: int) -> tuple[Rates, Rates]:
    (seen,) = table.view([flow], first_slot)
    return seen


def make_table(*entered: tuple[FlowId, tuple[float, ...]]) -> LoadTable:
    table = LoadTable(CAPACITY_BPS, HORIZON)
    for flow, rates_bps in entered:
        table.renew(flow, PATH_OF[flow], 0)
        assert enter(table, flow, Plan(0, rates_bps), 0)
    return table


def loads(table: LoadTable, first_slot: int = 0) -> dict[str, list[float]]:
    slots = range(first_slot, first_slot + 2 * HORIZON)
    return {link: [table.load_bps(link, slot) for slot in slots] for link in CAPACITY_BPS}


def assert_same_loads(table: LoadTable, expected: dict[str, list[float]]) -> None:
    for link, column in loads(table).items():
        assert column == pytest.approx(expected[link], abs=1e-9)


# ---- Law 1: a plan replaces the flow's old plan ----


@given(flows, plans, plans)
def test_a_plan_replaces_the_old_one(flow: FlowId, first: tuple[float, ...], second: tuple[float, ...]) -> None:
    twice, once = make_table(), make_table()
    for table, entries in ((twice, (first, second)), (once, (second,))):
        table.renew(flow, PATH_OF[flow], 0)
        fits = [enter(table, flow, Plan(0, rates_bps), 0) for rates_bps in entries]
    if fits[-1]:
        assert_same_loads(twice, loads(once))


def test_the_same_plan_again_adds_nothing() -> None:
    table = make_table((FLOWS[5], (10.0,)))
    assert enter(table, FLOWS[5], Plan(0, (10.0,)), 0)
    assert table.load_bps("h1->sw", 0) == 10.0


# ---- Law 2: a flow never sees its own plan ----


@given(st.lists(st.tuples(flows, plans), max_size=8), flows, plans)
def test_own_plan_is_not_in_the_feedback(
    others: list[tuple[FlowId, tuple[float, ...]]], flow: FlowId, plan: tuple[float, ...]
) -> None:
    table = make_table()
    table.renew(flow, PATH_OF[flow], 0)
    for other, rates_bps in others:
        if other != flow:
            table.renew(other, PATH_OF[other], 0)
            enter(table, other, Plan(0, rates_bps), 0)
    available, price = view(table, flow, 0)
    enter(table, flow, Plan(0, plan), 0)
    seen_available, seen_price = view(table, flow, 0)
    assert seen_available == pytest.approx(available, abs=1e-9)
    assert seen_price == pytest.approx(price, abs=1e-9)


@given(st.lists(st.tuples(flows, plans), max_size=8), flows, st.integers(0, 3))
def test_the_view_is_the_least_room_and_the_sum_of_loads(
    entered: list[tuple[FlowId, tuple[float, ...]]], flow: FlowId, first_slot: int
) -> None:
    """§IV-A: min_l (u_l − b_l(t)) and Σ_l b_l(t)/u_l, over this table's links of the path."""
    table = make_table()
    for other, rates_bps in entered:
        table.renew(other, PATH_OF[other], 0)
        enter(table, other, Plan(0, rates_bps), 0)
    links = table.renew(flow, PATH_OF[flow], 0)
    assert links == tuple(link for link in PATH_OF[flow] if link in CAPACITY_BPS)
    available, price = view(table, flow, first_slot)
    assert len(available) == len(price) == HORIZON
    for index in range(HORIZON):
        load = {link: table.load_bps(link, first_slot + index, without=flow) for link in links}
        room = min(CAPACITY_BPS[link] - load[link] for link in links)
        assert available[index] == pytest.approx(max(0.0, room), abs=1e-9)
        assert price[index] == pytest.approx(sum(load[link] / CAPACITY_BPS[link] for link in links), abs=1e-9)


@given(st.lists(st.tuples(flows, plans), max_size=8), flows)
def test_whatever_the_view_offers_is_accepted(entered: list[tuple[FlowId, tuple[float, ...]]], flow: FlowId) -> None:
    """So a host that re-plans from a refusal's loads is refused again only if another host came between."""
    table = make_table()
    for other, rates_bps in entered:
        table.renew(other, PATH_OF[other], 0)
        enter(table, other, Plan(0, rates_bps), 0)
    table.renew(flow, PATH_OF[flow], 0)
    available, _ = view(table, flow, 0)
    assert enter(table, flow, Plan(0, available), 0)


# ---- Law 3: capacity, and refusals change nothing ----


def test_refused_when_the_sum_exceeds_one_link_in_one_slot() -> None:
    table = make_table((FLOWS[0], (0.0, 2.0)), (FLOWS[3], (0.0, 0.0, 3.0)))
    before = loads(table)
    assert not enter(table, FLOWS[3], Plan(0, (1.0, 1.5, 0.0)), 0)  # sw->h1 carries 3
    assert loads(table) == before
    assert enter(table, FLOWS[3], Plan(0, (1.0, 1.0, 0.0)), 0)
    assert table.peak_ratio == pytest.approx(1.0)


@given(st.lists(st.tuples(flows, plans), min_size=1, max_size=10))
def test_a_refused_plan_leaves_the_table_unchanged(entries: list[tuple[FlowId, tuple[float, ...]]]) -> None:
    table = make_table()
    for flow, rates_bps in entries:
        table.renew(flow, PATH_OF[flow], 0)
        before, peak = loads(table), table.peak_ratio
        if not enter(table, flow, Plan(0, rates_bps), 0):
            assert loads(table) == before
            assert table.peak_ratio == peak


def test_slots_in_the_past_are_not_held_against_a_plan() -> None:
    table = make_table((FLOWS[0], (3.0, 1.0)))
    table.renew(FLOWS[3], PATH_OF[FLOWS[3]], 1)
    assert enter(table, FLOWS[3], Plan(0, (3.0, 2.0)), now_slot=1)
    assert not enter(table, FLOWS[3], Plan(0, (0.0, 2.5)), now_slot=1)


# ---- Plans that come together ----


@given(st.dictionaries(flows, plans), st.dictionaries(flows, plans))
def test_plans_that_come_together_are_all_entered_if_they_all_fit(
    before: dict[FlowId, Rates], together: dict[FlowId, Rates]
) -> None:
    """However the old ones stood in the way of some of them: a host moves load from one flow to another."""
    table, in_force = make_table(), {}
    for flow in FLOWS:
        table.renew(flow, PATH_OF[flow], 0)
        if flow in before and enter(table, flow, Plan(0, before[flow]), 0):
            in_force[flow] = before[flow]
    wanted = in_force | together
    fits = all(
        sum(Plan(0, rates_bps).at(slot) for flow, rates_bps in wanted.items() if link in PATH_OF[flow])
        <= capacity_bps * SLACK
        for link, capacity_bps in CAPACITY_BPS.items()
        for slot in range(HORIZON)
    )
    assert all(table.enter(together, 0, 0).values()) == fits
    if fits:
        assert_same_loads(table, loads(make_table(*wanted.items())))


def test_where_not_all_fit_the_first_ones_are_entered_and_the_others_left_out() -> None:
    table = make_table()
    for flow in FLOWS:
        table.renew(flow, PATH_OF[flow], 0)
    wanted = {FLOWS[0]: (2.0,), FLOWS[3]: (2.0,), FLOWS[1]: (7.0, 1.0), FLOWS[5]: (float("nan"),)}  # sw->h1 carries 3
    assert list(table.enter(wanted, 0, 0).values()) == [True, False, True, False]
    assert loads(table)["sw->h1"][0] == 2.0


def test_a_view_of_several_flows_is_that_of_each() -> None:
    table = make_table((FLOWS[0], (2.0, 1.0)), (FLOWS[1], (3.0,)), (FLOWS[4], (0.0, 4.0)), (FLOWS[5], (1.0,)))
    asking = [FLOWS[4], FLOWS[0], FLOWS[5], FLOWS[1]]
    assert table.view(asking, 0) == [view(table, flow, 0) for flow in asking]
    assert table.view([], 0) == []


def test_many_flows_with_paths_of_any_length_come_and_go() -> None:
    capacity_bps = {f"l{index}": 1000.0 for index in range(8)}
    table = LoadTable(capacity_bps, HORIZON)
    for turn in range(3):
        many = [FlowId(f"job{turn}/{index}", "a", "b", Role.RING) for index in range(100)]
        for index, flow in enumerate(many):
            table.renew(flow, [f"l{link}" for link in range(index % 9)], turn)
        assert all(table.enter(dict.fromkeys(many, (1.0, 2.0)), turn, turn).values())
        crossing = sum(index % 9 > 3 for index in range(100))
        assert [table.load_bps("l3", turn + slot) for slot in range(3)] == [crossing, 2 * crossing, 0]
        for flow in many:
            table.drop(flow)
        assert table.load_bps("l3", turn) == 0.0


# ---- Law 4: an entry must be renewed ----


def test_three_silent_slots_are_forgiven_and_a_fourth_is_not() -> None:
    table = make_table((FLOWS[5], (1.0,) * HORIZON))
    assert table.expire(ENTRY_SLOTS) == []
    assert table.load_bps("h1->sw", ENTRY_SLOTS) == 1.0
    assert table.expire(ENTRY_SLOTS + 1) == [FLOWS[5]]
    assert FLOWS[5] not in table
    assert table.load_bps("h1->sw", ENTRY_SLOTS) == 0.0


@given(st.lists(st.tuples(flows, st.integers(0, 3)), min_size=1, max_size=20))
def test_a_flow_lives_exactly_as_long_as_its_entry(reports: list[tuple[FlowId, int]]) -> None:
    table, slot = make_table(), 0
    heard: dict[FlowId, int] = {}
    for flow, later in reports:
        slot += later
        gone = table.expire(slot)
        assert set(gone) == {known for known, last in heard.items() if slot - last > ENTRY_SLOTS}
        for lapsed in gone:
            del heard[lapsed]
        table.renew(flow, PATH_OF[flow], slot)
        heard[flow] = slot
        assert len(table) == len(heard)
        assert all(known in table for known in heard)


def test_dropping_twice_or_an_unknown_flow_is_harmless() -> None:
    table = make_table((FLOWS[0], (1.0,)))
    table.drop(FLOWS[0])
    table.drop(FLOWS[0])
    table.drop(FLOWS[1])
    assert len(table) == 0
    assert_same_loads(table, loads(make_table()))


# ---- Law 5: beside cross traffic ----


def test_flows_see_cross_traffic_as_load_in_every_slot_alone_and_together() -> None:
    table = make_table((FLOWS[0], (1.0, 2.0)), (FLOWS[3], (1.0,)))
    table.set_others("h0->sw", 4.0, 0)
    alone, other = view(table, FLOWS[0], 0), view(table, FLOWS[3], 0)
    assert alone == ((2.0, 3.0, 3.0, 3.0), pytest.approx((0.4 + 1 / 3, 0.4, 0.4, 0.4)))
    together = table.view([FLOWS[0], FLOWS[3]], 0)
    assert together[0] == (alone[0], pytest.approx(alone[1])) and together[1] == (other[0], pytest.approx(other[1]))
    assert loads(table)["h0->sw"][:3] == [5.0, 6.0, 4.0] and table.load_bps("h1->sw", 0) == 1.0


def test_a_plan_beside_cross_traffic_has_what_that_leaves() -> None:
    table = make_table()
    flow = FLOWS[4]
    table.renew(flow, PATH_OF[flow], 0)
    table.set_others("h0->sw", 4.0, 0)
    assert not enter(table, flow, Plan(0, (6.1,)), 0)
    assert enter(table, flow, Plan(0, (6.0,)), 0)


def test_a_plan_from_before_cross_traffic_stays_and_may_only_shrink() -> None:
    table = make_table((FLOWS[4], (9.0, 9.0)))
    table.set_others("h0->sw", 4.0, 0)
    assert table.load_bps("h0->sw", 0) == 10.0, "no link is fuller than full"
    assert view(table, FLOWS[4], 0)[0][0] == 6.0
    assert not enter(table, FLOWS[4], Plan(0, (9.0, 9.5)), 0)
    assert enter(table, FLOWS[4], Plan(0, (9.0, 8.0)), 0), "less than before, if more than there is room"
    assert enter(table, FLOWS[4], Plan(0, (6.0, 6.0)), 0)
    assert table.peak_ratio <= 1.0


def test_what_nobody_says_any_more_has_ended() -> None:
    table = make_table()
    table.set_others("h0->sw", 4.0, 0)
    table.expire(ENTRY_SLOTS)
    assert table.others_bps("h0->sw") == 4.0 and table.has_others
    table.expire(ENTRY_SLOTS + 1)
    assert table.others_bps("h0->sw") == 0.0 and not table.has_others


@pytest.mark.parametrize(("said_bps", "load_bps"), [(99.0, 10.0), (math.inf, 10.0), (math.nan, 0.0), (-1.0, 0.0)])
def test_cross_traffic_is_no_more_than_a_link_carries(said_bps: float, load_bps: float) -> None:
    table = make_table()
    table.set_others("h0->sw", said_bps, 0)
    assert table.others_bps("h0->sw") == load_bps


# ---- All laws together, under any interleaving ----


class AnyInterleaving(RuleBasedStateMachine):
    """Hosts report, ask, leave and fall silent in any order; a plain dict says which plans are in force."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LoadTable(CAPACITY_BPS, HORIZON)
        self.slot = 0
        self.plans: dict[FlowId, Plan] = {}
        self.heard: dict[FlowId, int] = {}
        self.others: dict[str, tuple[float, int]] = {}  # and when it was said

    def others_bps(self, link: str) -> float:
        return self.others.get(link, (0.0, 0))[0]

    def expected(self, link: str, slot: int) -> float:
        return sum(plan.at(slot) for flow, plan in self.plans.items() if link in PATH_OF[flow])

    @rule(flow=flows, rates_bps=plans, behind=st.integers(0, 2))
    def report(self, flow: FlowId, rates_bps: tuple[float, ...], behind: int) -> None:
        plan = Plan(self.slot - behind, rates_bps)  # the report was under way for a while
        self.table.renew(flow, PATH_OF[flow], self.slot)
        self.heard[flow] = self.slot
        fits = all(
            self.expected(link, slot) - self.plans.get(flow, Plan(0, ())).at(slot) + plan.at(slot)
            <= CAPACITY_BPS[link] * SLACK
            for link in PATH_OF[flow]
            if link in CAPACITY_BPS
            for slot in range(self.slot, self.slot + HORIZON)
            if plan.at(slot) > 0.0
        ) and all(
            self.expected(link, slot) - old + plan.at(slot) + self.others_bps(link) <= CAPACITY_BPS[link] * SLACK
            for link in PATH_OF[flow]
            if link in CAPACITY_BPS
            for slot in range(self.slot, self.slot + HORIZON)
            if plan.at(slot) > (old := self.plans.get(flow, Plan(0, ())).at(slot)) + 1e-9
        )
        assert enter(self.table, flow, plan, self.slot) == fits
        if fits:
            self.plans[flow] = plan

    @rule(flow=flows)
    def ask(self, flow: FlowId) -> None:
        self.table.renew(flow, PATH_OF[flow], self.slot)
        self.heard[flow] = self.slot
        available, _ = view(self.table, flow, self.slot)
        assert all(rate >= 0.0 for rate in available)

    @rule(flow=flows)
    def withdraw(self, flow: FlowId) -> None:
        self.table.drop(flow)
        self.plans.pop(flow, None)
        self.heard.pop(flow, None)

    @rule(link=st.sampled_from(list(CAPACITY_BPS)), others_bps=st.sampled_from([0.0, 1.0, 2.5, 8.0, 99.0]))
    def others_send(self, link: str, others_bps: float) -> None:
        self.table.set_others(link, others_bps, self.slot)
        self.others[link] = (min(others_bps, CAPACITY_BPS[link]), self.slot)

    @rule(later=st.integers(1, 2))
    def time_passes(self, later: int) -> None:
        self.slot += later

    @rule()
    def expire(self) -> None:
        self.others = {link: one for link, one in self.others.items() if self.slot - one[1] <= ENTRY_SLOTS}
        for flow in self.table.expire(self.slot):
            assert self.slot - self.heard.pop(flow) > ENTRY_SLOTS
            self.plans.pop(flow, None)

    @invariant()
    def no_slot_of_any_link_exceeds_its_capacity(self) -> None:
        for link, capacity_bps in CAPACITY_BPS.items():
            for slot in range(self.slot, self.slot + HORIZON):
                load = self.table.load_bps(link, slot)
                assert load <= capacity_bps * SLACK
                seen_bps = min(self.expected(link, slot) + self.others_bps(link), capacity_bps)
                assert load == pytest.approx(seen_bps, abs=1e-9)
                assert self.expected(link, slot) <= capacity_bps * SLACK
        assert self.table.peak_ratio <= SLACK

    @invariant()
    def nothing_is_kept_of_flows_that_are_gone(self) -> None:
        assert len(self.table) == len(self.heard)


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(max_examples=40, stateful_step_count=40)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0.0, 4e9)), min_size=1, max_size=12))
def test_one_flow_is_shown_what_it_is_shown_beside_others(drawn: list[tuple[int, int, float]]) -> None:
    """A single flow's view is worked out without arrays."""
    table = LoadTable({f"l{number}": 1e10 / (number + 3) for number in range(4)}, 5)
    flows = [FlowId(f"j{number}", "h0", "h1", Role.RING) for number in range(len(drawn))]
    for flow, (first, last, rate_bps) in zip(flows, drawn, strict=True):
        table.renew(flow, dict.fromkeys((f"l{first}", f"l{last}")), 0)
        table.enter({flow: (rate_bps, 0.0, rate_bps / 3)}, 0, 0)
    together = table.view(flows, 1) if len(flows) > 1 else table.view([*flows, *flows], 1)[:1]
    assert [table.view([flow], 1)[0] for flow in flows] == together

"""The load table (§IV-A): its laws, one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.switch.load_table import ENTRY_SLOTS, SLACK, LoadTable, Rates
from tests.flowcore.switch.tables import (
    CAPACITY_BPS,
    FLOWS,
    HORIZON,
    PATH_OF,
    Plan,
    assert_same_loads,
    enter,
    flows,
    loads,
    make_table,
    plans,
    view,
)

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


# ---- However many are asked about ----


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

"""The load table beside cross traffic: what that leaves, to whom, and for how long."""

import math

import pytest

from paceline.flowcore.switch.load_table import ENTRY_SLOTS
from tests.flowcore.switch.tables import FLOWS, PATH_OF, Plan, enter, loads, make_table, view


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

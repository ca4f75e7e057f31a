"""A path's grant, from what each switch on it says."""

import math

import pytest

from paceline.flowcore.messages.grants import merged, shifted
from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import UNLIMITED

FLOW = FlowId("a", "h0", "h1", Role.RING)
OWN = Grant(FLOW, True, 5e8, 9e8, (1e9, 2e8), (0.0, 0.5), 100, math.inf, 0.0)


def test_a_path_carries_what_its_narrowest_link_leaves_and_costs_what_all_cost() -> None:
    other = OWN._replace(available_bps=(4e8, 3e8), load=(0.25, 0.25), alone_ns=300)
    path = merged(OWN, [other])
    assert path.available_bps == (4e8, 2e8)
    assert path.load == (0.25, 0.75)
    assert path.alone_ns == 300


def test_one_refusal_refuses_the_plan() -> None:
    assert merged(OWN, [OWN]).accepted
    assert not merged(OWN, [OWN, OWN._replace(accepted=False)]).accepted


def test_the_share_is_the_own_switchs() -> None:
    path = merged(OWN._replace(stands_for=3.0), [OWN._replace(share_bps=0.0, ceiling_bps=0.0)])
    assert (path.share_bps, path.ceiling_bps, path.stands_for) == (5e8, 9e8, 3.0)


def test_the_switch_that_knows_all_upstream_flows_is_believed() -> None:
    blind = OWN._replace(upstream_bytes=0.0, downstream_bytes=0.0)  # it has heard of none of them
    seeing = OWN._replace(upstream_bytes=7e6, downstream_bytes=3e6)
    path = merged(blind, [seeing])
    assert (path.upstream_bytes, path.downstream_bytes) == (7e6, 3e6)


@pytest.mark.parametrize(
    ("slots", "available_bps", "load"),
    [
        (0, (1e9, 2e8), (0.0, 0.5)),
        (-1, (1e9, 2e8), (0.0, 0.5)),
        (1, (2e8, UNLIMITED), (0.5, 0.0)),
        (5, (UNLIMITED, UNLIMITED), (0.0, 0.0)),
    ],
)
def test_an_old_grant_says_nothing_about_slots_it_did_not_reach(
    slots: int, available_bps: tuple[float, ...], load: tuple[float, ...]
) -> None:
    later = shifted(OWN, slots)
    assert (later.available_bps, later.load) == (available_bps, load)

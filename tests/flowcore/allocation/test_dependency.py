"""Algorithm 2's arithmetic (§IV-C)."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.dependency import excess_bytes, increased_bps, shortfall_bytes
from paceline.flowcore.model.patterns import Role

volumes = st.floats(0.0, 1e12)
rates = st.floats(0.0, 1e11)


def test_a_broadcast_catches_up_with_the_least_aggregated() -> None:
    assert shortfall_bytes(Role.PULL, 70.0, upstream_bytes=100.0, downstream_bytes=0.0) == 30.0


def test_an_aggregation_flow_catches_up_with_the_furthest_broadcast() -> None:
    assert shortfall_bytes(Role.PUSH, 70.0, upstream_bytes=inf, downstream_bytes=90.0) == 20.0


def test_a_ring_member_catches_up_with_what_arrived() -> None:
    assert shortfall_bytes(Role.RING, 70.0, upstream_bytes=75.0, downstream_bytes=500.0) == 5.0


@pytest.mark.parametrize("role", list(Role))
def test_a_flow_that_is_not_behind_need_not_hurry(role: Role) -> None:
    assert shortfall_bytes(role, 100.0, upstream_bytes=100.0, downstream_bytes=100.0) == 0.0
    assert shortfall_bytes(role, 101.0, upstream_bytes=100.0, downstream_bytes=100.0) == 0.0


def test_lines_5_to_11() -> None:
    assert increased_bps(5e8, 0.0, bandwidth_bps=1e8) == 5e8  # Δ = 0: the plan, whatever B_i
    assert increased_bps(5e8, 2e8, bandwidth_bps=1e9) == 7e8  # r + Δ < B_i
    assert increased_bps(5e8, 7e8, bandwidth_bps=1e9) == 1e9  # else B_i


def test_ahead_of_the_pred_by_the_window_is_no_excess() -> None:
    assert excess_bytes(150.0, upstream_bytes=100.0, window_bytes=50.0) == 0.0
    assert excess_bytes(160.0, upstream_bytes=100.0, window_bytes=50.0) == 10.0
    assert excess_bytes(160.0, upstream_bytes=100.0, window_bytes=0.0) == 60.0


def test_without_upstream_flows_there_is_no_excess() -> None:
    assert excess_bytes(1e12, upstream_bytes=inf, window_bytes=0.0) == 0.0
    assert excess_bytes(1e12, upstream_bytes=inf, window_bytes=inf) == 0.0


@given(volumes, volumes, st.floats(0.0, 1e9))
def test_after_the_decrease_the_invariant_holds(volume: float, feeder: float, window: float) -> None:
    """F_i ≤ F_j + W, and nothing is taken away that did not have to be."""
    excess = excess_bytes(volume, feeder, window)
    assert volume - excess <= (feeder + window) * (1 + 1e-9) + 1e-3
    assert excess == 0.0 or volume - excess == pytest.approx(feeder + window, rel=1e-9, abs=1e-3)


@given(st.sampled_from(Role), volumes, volumes, volumes)
def test_after_the_increase_no_flow_is_behind(role: Role, volume: float, feeder: float, downstream: float) -> None:
    target = downstream if role is Role.PUSH else feeder
    assert volume + shortfall_bytes(role, volume, feeder, downstream) == pytest.approx(max(volume, target))


@given(rates, rates, rates)
def test_the_increase_stays_between_plan_and_bandwidth(rate: float, shortfall: float, bandwidth: float) -> None:
    increased = increased_bps(rate, shortfall, bandwidth)
    if shortfall == 0.0:
        assert increased == rate
    else:
        assert increased <= bandwidth
        assert increased in (rate + shortfall, bandwidth)

"""Percentiles of the last decisions, and rates achieved."""

import pytest

from flowcore.patterns import FlowId, Role
from hostd.achieved import AchievedRates
from hostd.durations import KEPT, Durations

FLOW = FlowId("a", "h0", "h1", Role.RING)


def test_percentiles_are_of_the_last_ones() -> None:
    durations = Durations()
    assert durations.percentiles_ms() == {"p50": 0.0, "p90": 0.0, "p99": 0.0}
    for _ in range(10):
        durations.note(9.0)
    for number in range(KEPT):
        durations.note(number / KEPT)
    assert durations.count == KEPT + 10
    assert durations.percentiles_ms() == pytest.approx({"p50": 500, "p90": 900, "p99": 990}, rel=0.01)


def test_a_rate_is_bytes_since_the_last_sample() -> None:
    rates = AchievedRates()
    rates.sample(0, [(FLOW, 1000.0)])
    assert rates.bps(FLOW) == 0.0
    rates.sample(1_000_000, [(FLOW, 2000.0)])
    assert rates.bps(FLOW) == pytest.approx(8e6)
    rates.sample(2_000_000, [(FLOW, 500.0)])
    assert rates.bps(FLOW) == 0.0, "it began anew"
    rates.sample(3_000_000, [])
    assert rates.bps(FLOW) == 0.0

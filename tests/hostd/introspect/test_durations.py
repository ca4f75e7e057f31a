"""Percentiles of the last decisions, and rates achieved."""

import pytest

from hostd.introspect.durations import KEPT, Durations
from hostd.monitor.throughput import Throughput
from paceline.flowcore.model.patterns import FlowId, Role

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


def test_a_rate_is_bytes_from_one_measurement_to_the_next() -> None:
    rates = Throughput()
    rates.sample([(FLOW, 0, 1000.0)])
    assert rates.bps(FLOW) == 0.0
    rates.sample([(FLOW, 1_000_000, 2000.0)])
    assert rates.bps(FLOW) == pytest.approx(8e6)
    rates.sample([(FLOW, 1_000_000, 2000.0)])
    assert rates.bps(FLOW) == pytest.approx(8e6), "nobody has looked since"
    rates.sample([(FLOW, 2_000_000, 500.0)])
    assert rates.bps(FLOW) == 0.0, "it began anew"
    rates.sample([(FLOW, 3_000_000, 1500.0)])
    rates.sample([])
    assert rates.bps(FLOW) == 0.0, "it rests"

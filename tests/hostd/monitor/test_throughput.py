"""How fast a flow was, from one measurement to the next."""

import pytest

from hostd.monitor.throughput import Throughput
from paceline.flowcore.model.patterns import FlowId, Role

FLOW = FlowId("a", "h0", "h1", Role.RING)


def test_a_rate_is_bytes_from_one_measurement_to_the_next() -> None:
    rates = Throughput()
    rates.sample([(FLOW, 0, 1000.0)])
    assert rates.bps(FLOW) == 0.0
    rates.sample([(FLOW, 1_000_000, 2000.0)])
    assert rates.bps(FLOW) == pytest.approx(8e6)
    rates.sample([(FLOW, 1_000_000, 2000.0)])
    assert rates.bps(FLOW) == pytest.approx(8e6), "it was not looked at since"
    rates.sample([(FLOW, 2_000_000, 500.0)])
    assert rates.bps(FLOW) == 0.0, "it began anew"
    rates.sample([(FLOW, 3_000_000, 1500.0)])
    rates.sample([])
    assert rates.bps(FLOW) == 0.0, "it rests"

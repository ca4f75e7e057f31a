"""Control traffic is counted while jobs run, and not while they are made ready."""

import time

import pytest

from bench.experiments.paper.overhead import EVERY_S, TrafficMeter
from bench.jobs.tcp_control import NoDaemons
from bench.testbed.network import Testbed
from paceline.flowcore.model.topology import star

pytestmark = pytest.mark.root


def test_the_meter_counts_from_the_jobs_beginning_to_their_end() -> None:
    mbps: list[float] = []
    with Testbed(star(2, 1.0)) as testbed:
        meter = TrafficMeter(NoDaemons(), testbed.nodes["sw"], mbps)
        try:
            time.sleep(3 * EVERY_S)
            assert mbps == []
            meter.begin()
            time.sleep(5 * EVERY_S)
            meter.cpu()
            counted = len(mbps)
            time.sleep(3 * EVERY_S)
        finally:
            meter.end()
    assert 1 <= counted == len(mbps) <= 5

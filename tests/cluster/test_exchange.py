"""How long an all-reduce takes where a job is: by hand on small clusters, and in the order of the tiers."""

import pytest

from paceline.cluster.collectives import COLLECTIVES, halving_doubling, ring
from paceline.cluster.exchange import MESSAGE_BYTES, STEP_S, NetworkModel, by_table
from paceline.cluster.tiers import Tier
from paceline.flowcore.model.topology import clos

K_BYTES = 100e6
NETWORK = NetworkModel(clos(2, 2, 1, (10.0, 10.0)), machine_gbps=800.0)  # h0, h1 | h2, h3


def seconds(ranks: tuple[str, ...], collective: str = "ring") -> float:
    return NETWORK.exchange(COLLECTIVES[collective](len(ranks), K_BYTES), ranks, K_BYTES).seconds


def latency_s(tier: Tier, steps: int) -> float:
    return K_BYTES / MESSAGE_BYTES * steps * STEP_S[tier]


def test_a_ring_of_two_sends_the_model_once_each_way() -> None:
    """2 phases of K/2 on 10 Gbit/s: 80 ms."""
    found = NETWORK.exchange(ring(2, K_BYTES), ("h0", "h1"), K_BYTES)
    assert found.seconds == pytest.approx(0.080 + latency_s(Tier.RACK, 2))
    assert found.busy_s["h0->tor0"] == found.busy_s["tor0->h1"] == pytest.approx(0.080)


def test_a_ring_crosses_between_machines_once_whatever_is_inside() -> None:
    ranks = ("h0", "h0", "h1", "h1")
    found = NETWORK.exchange(ring(4, K_BYTES), ranks, K_BYTES)
    assert found.busy_s["h0->tor0"] == pytest.approx(6 * K_BYTES / 4 * 8 / 10e9)
    scattered = NETWORK.exchange(ring(4, K_BYTES), ("h0", "h1", "h0", "h1"), K_BYTES)
    assert scattered.seconds - latency_s(Tier.RACK, 6) == pytest.approx(2 * (found.seconds - latency_s(Tier.RACK, 6)))


def test_halving_doubling_depends_on_which_worker_is_where() -> None:
    """Titan's point: heavy partners together, and half as much crosses in the same number of phases."""
    heavy_apart = NETWORK.exchange(halving_doubling(4, K_BYTES), ("h0", "h0", "h1", "h1"), K_BYTES)
    heavy_together = NETWORK.exchange(halving_doubling(4, K_BYTES), ("h0", "h1", "h0", "h1"), K_BYTES)
    assert heavy_apart.busy_s["h0->tor0"] == pytest.approx(2 * heavy_together.busy_s["h0->tor0"])


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_farther_apart_takes_longer(collective: str) -> None:
    machine = seconds(("h0",) * 4, collective)
    rack = seconds(("h0", "h0", "h1", "h1"), collective)
    network = seconds(("h0", "h0", "h2", "h2"), collective)
    assert machine < rack < network
    assert seconds(("h0",), collective) == 0.0


def test_table_one_is_a_share_of_computing() -> None:
    assert [by_table((0.12, 0.12, 0.38), 2.0, tier).seconds for tier in Tier] == pytest.approx([0.24, 0.24, 0.76])
    assert by_table((0.12, 0.12, 0.38), 2.0, Tier.RACK).busy_s == {}


def test_what_passes_between_machines_is_their_slowest_links() -> None:
    assert NETWORK.pair_bytes("h0", "h3", within_s=0.1) == pytest.approx(10e9 * 0.1 / 8)

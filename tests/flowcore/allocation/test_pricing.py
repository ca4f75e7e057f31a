"""Prices against the exact packing, on crowds as they meet in a cluster."""

import random
from collections.abc import Sequence
from statistics import fmean

import pytest

from paceline.flowcore.allocation import arbiters
from paceline.flowcore.allocation.arbiters import Contender, max_weight_shares
from paceline.flowcore.messages.reports import Bid


def crowd(seed: int, jobs: int = 30) -> tuple[list[Contender], dict[str, float]]:
    """Rings over hosts of four racks whose uplinks are scarce."""
    draws = random.Random(seed)
    hosts = range(40)
    capacity = {f"{way}{host}": 10.0 for host in hosts for way in ("up", "down")}
    capacity |= {f"{way}-rack{rack}": 20.0 for rack in range(4) for way in ("up", "down")}
    contenders = []
    for number in range(jobs):
        members = draws.sample(hosts, draws.choice([2, 2, 4, 8]))
        flows_on: dict[str, int] = {}
        for source, target in zip(members, members[1:] + members[:1], strict=True):
            path = [f"up{source}", f"down{target}"]
            if source % 4 != target % 4:
                path += [f"up-rack{source % 4}", f"down-rack{target % 4}"]
            for link in path:
                flows_on[link] = flows_on.get(link, 0) + 1
        contenders.append(Contender(f"j{number}", Bid(draws.uniform(1.0, 5.0)), flows_on))
    return contenders, capacity


def value(contenders: list[Contender], capacity: dict[str, float], rates: list[float]) -> float:
    pairs = zip(contenders, rates, strict=True)
    return sum(c.bid.urgency * rate / c.alone_bps(capacity) for c, rate in pairs)


def urgencies(bids: Sequence[Bid]) -> list[float]:
    return [bid.urgency for bid in bids]


def test_a_crowd_is_packed_nearly_as_well_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = []
    for seed in range(12):
        contenders, capacity = crowd(seed)
        monkeypatch.setattr(arbiters, "LARGEST_EXACT", 1000)
        best = value(contenders, capacity, max_weight_shares(contenders, capacity, urgencies))
        monkeypatch.setattr(arbiters, "LARGEST_EXACT", 1)
        ratios.append(value(contenders, capacity, max_weight_shares(contenders, capacity, urgencies)) / best)
    assert fmean(ratios) > 0.95
    assert min(ratios) > 0.85


@pytest.mark.parametrize("seed", range(5))
def test_no_link_gets_more_than_it_has_and_no_job_waits_without_a_full_link(seed: int) -> None:
    contenders, capacity = crowd(seed, jobs=60)
    rates = max_weight_shares(contenders, capacity, urgencies)
    load = dict.fromkeys(capacity, 0.0)
    for contender, rate in zip(contenders, rates, strict=True):
        for link, flows in contender.flows_on.items():
            load[link] += flows * rate
    assert all(load[link] <= capacity[link] * (1 + 1e-9) for link in capacity)
    for contender in contenders:
        assert any(load[link] >= capacity[link] * (1 - 1e-9) for link in contender.flows_on)

"""What is compiled divides links as flowcore's own functions do, to the last bit."""

import numpy as np
import pytest

from paceline.flowcore.allocation.arbiters import Contender, first_of_group, groups
from paceline.flowcore.allocation.borrowing import ceilings
from paceline.flowcore.allocation.pricing import rates_by_price
from paceline.flowcore.messages.reports import Bid
from paceline.sim.kernel.crowd import crowd_ceilings, crowd_rates, link_groups
from paceline.sim.kernel.library import library

pytestmark = pytest.mark.skipif(library() is None, reason="without a compiler both are the same function")

LINKS, CAPACITIES = 30, (1e10, 2e10, 4e10)


@pytest.mark.parametrize("seed", range(20))
def test_rates_by_price_are_the_same(seed: int) -> None:
    draws = np.random.default_rng(seed)
    capacity_bps = np.append(draws.choice(CAPACITIES, LINKS), np.inf)
    crossed = [draws.choice(LINKS, draws.integers(1, 7), replace=False) for _ in range(int(draws.integers(2, 80)))]
    link, job = np.concatenate(crossed), np.repeat(np.arange(len(crossed)), [len(links) for links in crossed])
    flows = draws.integers(1, 4, len(link)).astype(np.float64)
    # Few weights, so that some jobs are worth the same.
    weight, first = draws.choice([1.0, 2.5, 7.0], len(crossed)), np.searchsorted(job, np.arange(len(crossed) + 1))
    expected = rates_by_price(weight, job, link, flows, capacity_bps)
    assert crowd_rates(weight, first, link, flows, capacity_bps).tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_the_same(seed: int) -> None:
    draws = np.random.default_rng(seed)
    crossed = [draws.choice(200, draws.integers(1, 4), replace=False) for _ in range(int(draws.integers(1, 80)))]
    expected = np.zeros(len(crossed), np.int64)
    for group in groups([Contender("", Bid(0.0), dict.fromkeys(map(str, links), 1)) for links in crossed]):
        expected[group] = group[0]
    assert link_groups(crossed, 200) == expected.tolist()
    assert first_of_group([links.tolist() for links in crossed]) == expected.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_ceilings_are_the_same(seed: int) -> None:
    draws = np.random.default_rng(seed)
    capacity_bps = np.append(draws.choice(CAPACITIES, LINKS), np.inf)
    flows = int(draws.integers(1, 200))
    paths = np.array([draws.choice(LINKS + 1, 4, replace=False) for _ in range(flows)])
    host, job = paths[:, 0].copy(), np.sort(draws.integers(0, 9, flows))
    share_bps = draws.choice([0.0, 1e9, 5e9, 1e10], flows)
    expected, _ = ceilings(share_bps, paths, host, job, capacity_bps)
    assert crowd_ceilings(share_bps, paths, host, job, capacity_bps).tolist() == expected.tolist()

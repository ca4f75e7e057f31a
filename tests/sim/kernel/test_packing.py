"""The compiled packing is flowcore's own, to the last bit."""

import numpy as np
import pytest

from paceline.flowcore.allocation.arbiters import LARGEST_EXACT, Packing
from paceline.sim.kernel.library import library
from paceline.sim.kernel.packing import CompiledPacking

pytestmark = pytest.mark.skipif(library() is None, reason="without a compiler both are the same function")

CAPACITIES = (1e10, 2e10, 4e10)


@pytest.mark.parametrize("seed", range(60))
def test_rates_are_the_same(seed: int) -> None:
    draws = np.random.default_rng(seed)
    links = int(draws.integers(1, 16))
    capacity_bps = np.append(draws.choice(CAPACITIES, links), np.inf)
    by_name = {str(number): float(bps) for number, bps in enumerate(capacity_bps)}
    crossed = [
        draws.choice(links, draws.integers(1, links + 1), replace=False)
        for _ in range(int(draws.integers(2, LARGEST_EXACT + 1)))
    ]
    flows = [draws.integers(1, 4, len(of_job)).astype(np.float64) for of_job in crossed]
    named = [
        {str(link): int(count) for link, count in zip(of_job, counts, strict=True)}
        for of_job, counts in zip(crossed, flows, strict=True)
    ]
    expected, found = Packing(named, by_name), CompiledPacking(crossed, flows, capacity_bps)
    # Few weights at first, so that some jobs are worth the same; the second time in the same memory.
    for weights in (draws.choice([1.0, 2.5, 7.0], len(crossed)), draws.uniform(0.1, 256.0, len(crossed))):
        assert found.rates(weights.tolist()) == expected.rates(weights.tolist())


def test_a_job_with_weight_on_no_link_is_refused() -> None:
    links = [np.array([0]), np.array([0])]
    packing = CompiledPacking(links, [np.array([1.0]), np.array([1.0])], np.array([np.inf, np.inf]))
    with pytest.raises(ArithmeticError):
        packing.rates([1.0, 2.0])

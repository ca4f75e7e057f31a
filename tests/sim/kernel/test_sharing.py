"""Sharing over arrays is the same as sharing one link or flow at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation import fairshare
from paceline.sim.kernel import sharing
from paceline.sim.reference import network

LINKS = 6
rates = st.one_of(st.just(0.0), st.floats(0.1, 20.0))
weights = st.one_of(st.just(1.0), st.floats(0.25, 4.25), st.floats(0.01, 100.0))
flows = st.tuples(st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=4, unique=True), rates, weights)


@given(st.lists(flows, min_size=1, max_size=25), st.lists(st.floats(0.5, 10.0), min_size=LINKS, max_size=LINKS))
def test_max_min_is_the_same(problem: list[tuple[list[int], float, float]], capacity: list[float]) -> None:
    paths, ceilings, weight = ([flow[place] for flow in problem] for place in range(3))
    padded, unending = np.array([path + [LINKS] * (4 - len(path)) for path in paths]), np.array([*capacity, np.inf])
    found = sharing.max_min(padded, np.array(ceilings), unending)
    assert found == pytest.approx(fairshare.max_min(paths, ceilings, capacity), abs=1e-9)
    weighted = sharing.max_min(padded, np.array(ceilings), unending, np.array(weight))
    assert weighted == pytest.approx(fairshare.max_min(paths, ceilings, capacity, weight), abs=1e-9)


leaves = st.lists(st.tuples(rates, rates), min_size=1, max_size=6)


@given(leaves, leaves, st.floats(0.5, 10.0))
def test_htb_is_the_same_on_every_nic(
    one: list[tuple[float, float]], other: list[tuple[float, float]], capacity: float
) -> None:
    expected = [
        rate
        for leaf in (one, other)
        for rate in network.htb([want for want, _ in leaf], [firm for _, firm in leaf], capacity)
    ]
    both = np.array(one + other)
    nic = np.array([0] * len(one) + [1] * len(other))
    found = sharing.htb(both[:, 0], both[:, 1], nic, np.array([capacity, capacity, np.inf]))
    assert found == pytest.approx(expected, abs=1e-9)

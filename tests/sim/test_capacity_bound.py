"""The capacity bound: feasible, optimal, and what its optimality conditions say."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paceline.sim.capacity_bound import CapacityBound, capacity_bound

Shares = list[dict[str, float]]


def shares_of(jobs: int, links: int, largest: float) -> st.SearchStrategy[Shares]:
    share = st.one_of(st.floats(1e-9, largest), st.sampled_from([1e-9, 0.0, 0.25, 0.5, 1.0, largest]))
    names = st.sampled_from([f"l{k}" for k in range(links)])
    return st.lists(st.dictionaries(names, share, max_size=links), min_size=1, max_size=jobs)


def assert_optimal(shares: Shares, bound: CapacityBound) -> None:
    """Karush, Kuhn and Tucker. The problem is convex, so these conditions are also sufficient."""
    speed = [1.0 / s for s in bound.slowdowns]
    for share, s in zip(shares, bound.slowdowns, strict=True):
        price = sum(bound.prices[link] * a for link, a in share.items())
        assert s == pytest.approx(max(1.0, sqrt(price)), rel=1e-12)
    for link, price in bound.prices.items():
        used = sum(share.get(link, 0.0) * x for share, x in zip(shares, speed, strict=True))
        assert price >= 0.0
        assert used <= 1.0 + 1e-8
        assert price * (1.0 - used) <= 1e-8 * sum(bound.slowdowns)
    assert bound.mean == pytest.approx(sum(bound.slowdowns) / len(shares))


@given(shares_of(jobs=8, links=5, largest=50.0))
@example([{"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}, {"a": 1e-15, "b": 1e-15}])  # barely binding, twice
@example([{"a": 1.0}, {"a": 1e-7}])  # hardly too much: the price jumps to 1, the slowdown hardly moves
@example([{"a": 1.0}, {"a": 1.0, "b": 1.0}, {"b": 1.0, "c": 1.0}, {"c": 1.0}])
@settings(deadline=None)
def test_optimality_conditions(shares: Shares) -> None:
    assert_optimal(shares, capacity_bound(shares))


@given(shares_of(jobs=3, links=3, largest=4.0), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_no_feasible_point_is_better(shares: Shares, seed: int) -> None:
    links = sorted({link for share in shares for link in share})
    need = np.array([[share.get(link, 0.0) for share in shares] for link in links]).reshape(-1, len(shares))
    speed = np.random.default_rng(seed).uniform(1e-3, 1.0, (500, len(shares)))
    # Scaled until the first constraint binds: no point of the same direction is better.
    speed /= np.maximum(speed.max(axis=1), (speed @ need.T).max(axis=1, initial=0.0))[:, None]
    assert (1.0 / speed).mean(axis=1).min() >= capacity_bound(shares).mean * (1.0 - 1e-8)


def test_grid_of_two_jobs_finds_the_same() -> None:
    shares = [{"up": 0.9, "down": 0.3}, {"up": 0.4, "core": 0.7}]
    grid = np.linspace(0.3, 1.0, 701)
    one, two = np.meshgrid(grid, grid)
    feasible = 0.9 * one + 0.4 * two <= 1.0 + 1e-12
    assert capacity_bound(shares).mean == pytest.approx(((1 / one + 1 / two) / 2)[feasible].min(), abs=2e-3)


@given(st.lists(st.floats(0.51, 50.0), min_size=2, max_size=10))
@settings(deadline=None)
def test_one_link_closed_form(needs: list[float]) -> None:
    """One link, all jobs slowed (shares above a half force it): Σ √a/√λ = 1, so √λ = Σ √a."""
    price = sum(map(sqrt, needs)) ** 2
    bound = capacity_bound([{"l": a} for a in needs])
    assert bound.prices["l"] == pytest.approx(price, rel=1e-9)
    assert bound.slowdowns == pytest.approx([sqrt(price * a) for a in needs], rel=1e-9)


@given(shares_of(jobs=5, links=3, largest=3.0), st.floats(1.0, 3.0))
@settings(deadline=None)
def test_more_load_is_never_faster(shares: Shares, factor: float) -> None:
    heavier = [{link: a * factor for link, a in share.items()} for share in shares]
    assert capacity_bound(heavier).mean >= capacity_bound(shares).mean * (1.0 - 1e-8)


def test_links_that_suffice_slow_no_job() -> None:
    bound = capacity_bound([{"l": 0.6, "m": 1.0}, {"l": 0.4}, {}])
    assert bound == CapacityBound((1.0, 1.0, 1.0), 1.0, {"l": 0.0, "m": 0.0})
    assert capacity_bound([]) == CapacityBound((), 1.0, {})


def test_a_copy_of_a_link_changes_nothing() -> None:
    once = capacity_bound([{"l": 0.8}, {"l": 0.5}])
    twice = capacity_bound([{"l": 0.8, "m": 0.8}, {"l": 0.5, "m": 0.5}])
    assert twice.slowdowns == pytest.approx(once.slowdowns, rel=1e-9)
    assert sum(twice.prices.values()) == pytest.approx(sum(once.prices.values()), rel=1e-9)


def test_a_cluster_of_jobs() -> None:
    rng = np.random.default_rng(1)
    paths = [rng.choice(120, size=rng.integers(1, 8), replace=False) for _ in range(90)]
    shares = [{f"l{link}": float(10 ** rng.uniform(-2, 0.3)) for link in path} for path in paths]
    assert_optimal(shares, capacity_bound(shares))


@pytest.mark.parametrize("share", [-0.1, float("inf"), float("nan")])
def test_refuses_what_is_no_share(share: float) -> None:
    with pytest.raises(ValueError, match="'l'"):
        capacity_bound([{"l": share}])

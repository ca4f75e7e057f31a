"""Max-min fairness: the definition, checked link by link."""

import random
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.flowcore.allocation.fairshare import max_min

Problem = tuple[list[list[int]], list[float], list[float]]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    links, flows = draw(st.integers(1, 8)), draw(st.integers(1, 12))
    # Round figures make several links fill at the same level; the floats make levels that differ by rounding.
    capacities = st.one_of(st.sampled_from([0.0, 1.0, 3.0, 10.0]), st.floats(1e-3, 1e10))
    ceilings = st.one_of(st.sampled_from([0.0, 0.5, 1.0, inf]), st.floats(0.0, 1e10))
    path = st.lists(st.integers(0, links - 1), unique=True, max_size=4)
    return (
        draw(st.lists(path, min_size=flows, max_size=flows)),
        draw(st.lists(ceilings, min_size=flows, max_size=flows)),
        draw(st.lists(capacities, min_size=links, max_size=links)),
    )


def assert_max_min_fair(problem: Problem, rates: list[float], weights: list[float] | None = None) -> None:
    paths, ceilings, capacity = problem
    used, highest = [0.0] * len(capacity), [0.0] * len(capacity)
    levels = [rate / weight for rate, weight in zip(rates, weights or [1.0] * len(rates), strict=True)]
    for path, rate, level in zip(paths, rates, levels, strict=True):
        for link in path:
            used[link] += rate
            highest[link] = max(highest[link], level)
    full = [u >= c * (1 - 1e-9) for u, c in zip(used, capacity, strict=True)]
    assert all(u <= c * (1 + 1e-9) for u, c in zip(used, capacity, strict=True))
    for path, rate, level, ceiling in zip(paths, rates, levels, ceilings, strict=True):
        assert 0.0 <= rate <= ceiling * (1 + 1e-15)
        has_bottleneck = any(full[link] and level >= highest[link] * (1 - 1e-9) for link in path)
        assert rate == ceiling or has_bottleneck


@given(problems())
@settings(deadline=None)
def test_at_the_ceiling_or_at_a_bottleneck(problem: Problem) -> None:
    assert_max_min_fair(problem, max_min(*problem))


@given(problems(), st.data())
@settings(deadline=None)
def test_with_weights_too(problem: Problem, data: st.DataObject) -> None:
    flows = len(problem[0])
    weights = data.draw(st.lists(st.floats(0.01, 100.0), min_size=flows, max_size=flows))
    assert_max_min_fair(problem, max_min(*problem, weights), weights)


@given(problems(), st.sampled_from([0.5, 1.0, 4.0]))
@settings(deadline=None)
def test_equal_weights_change_nothing(problem: Problem, weight: float) -> None:
    assert max_min(*problem, [weight] * len(problem[0])) == max_min(*problem)


@given(problems(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_of_flows_and_names_of_links_do_not_matter(problem: Problem, rng: random.Random) -> None:
    paths, ceilings, capacity = problem
    flows, links = list(range(len(paths))), list(range(len(capacity)))
    rng.shuffle(flows)
    rng.shuffle(links)
    renamed = [0.0] * len(links)
    for link, name in enumerate(links):
        renamed[name] = capacity[link]
    shuffled = max_min([[links[link] for link in paths[f]] for f in flows], [ceilings[f] for f in flows], renamed)
    rates = max_min(*problem)
    assert shuffled == pytest.approx([rates[f] for f in flows], rel=1e-9)


def test_textbook_example() -> None:
    """A long flow over two links meets one flow on the first and two on the second."""
    rates = max_min([[0, 1], [0], [1], [1]], [inf] * 4, [10.0, 9.0])
    assert rates == pytest.approx([3.0, 7.0, 3.0, 3.0])


def test_what_a_ceiling_leaves_goes_to_the_others() -> None:
    assert max_min([[0], [0], [0]], [1.0, inf, inf], [10.0]) == pytest.approx([1.0, 4.5, 4.5])


def test_links_are_divided_by_weight() -> None:
    """What the heavy flow cannot use on its other link goes to the light ones, by their weights."""
    assert max_min([[0], [0], [0]], [inf] * 3, [10.0], [1.0, 1.0, 3.0]) == pytest.approx([2.0, 2.0, 6.0])
    assert max_min([[0], [0], [0, 1]], [inf] * 3, [10.0, 4.0], [1.0, 2.0, 3.0]) == pytest.approx([2.0, 4.0, 4.0])


def test_edges() -> None:
    assert max_min([], [], [1.0]) == []
    assert max_min([[]], [7.0], []) == [7.0]
    assert max_min([[0], [0]], [1.0, inf], [0.0]) == [0.0, 0.0]


def test_hundreds_of_flows() -> None:
    rng = random.Random(1)
    paths = [rng.sample(range(200), rng.randint(1, 6)) for _ in range(500)]
    ceilings = [rng.choice([inf, rng.uniform(0.0, 1.0)]) for _ in paths]
    problem = paths, ceilings, [rng.uniform(0.1, 10.0) for _ in range(200)]
    assert_max_min_fair(problem, max_min(*problem))

"""The max-weight packing: against brute force, against duality, and the examples of packing.py."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.packing import max_weight

Problem = tuple[list[float], list[list[float]]]

WEIGHTS = st.one_of(st.integers(1, 9).map(float), st.floats(0.01, 100.0))


@st.composite
def problems(draw: st.DrawFn, most_jobs: int = 4, most_links: int = 4) -> Problem:
    """Every job has a bottleneck of coefficient 1, as arbitrate.py builds them; ties are likely."""
    jobs, links = draw(st.integers(1, most_jobs)), draw(st.integers(1, most_links))
    coefficient = st.one_of(st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0]), st.floats(0.05, 1.0))
    rows = [[draw(coefficient) for _ in range(jobs)] for _ in range(links)]
    for job in range(jobs):
        rows[draw(st.integers(0, links - 1))][job] = 1.0
    return [draw(WEIGHTS) for _ in range(jobs)], rows


def value(weights: list[float], shares: list[float]) -> float:
    return sum(weight * share for weight, share in zip(weights, shares, strict=True))


def best_vertex_value(weights: list[float], rows: list[list[float]]) -> float:
    """The optimum lies on a vertex: try every choice of n constraints that meet in a point."""
    count = len(weights)
    matrix = np.vstack([np.array(rows), -np.eye(count)])
    right = np.concatenate([np.ones(len(rows)), np.zeros(count)])
    best = 0.0
    for chosen in combinations(range(len(right)), count):
        corner = matrix[list(chosen)]
        if abs(np.linalg.det(corner)) > 1e-9:
            point = np.linalg.solve(corner, right[list(chosen)])
            if np.all(matrix @ point <= right + 1e-9):
                best = max(best, float(np.dot(weights, point)))
    return best


def assert_feasible(problem: Problem, shares: list[float]) -> None:
    assert all(share >= 0.0 for share in shares)
    assert all(value(row, shares) <= 1.0 + 1e-9 for row in problem[1])


@given(problems())
def test_as_good_as_the_best_vertex(problem: Problem) -> None:
    shares = max_weight(*problem)
    assert_feasible(problem, shares)
    assert value(problem[0], shares) == pytest.approx(best_vertex_value(*problem), rel=1e-7)


@given(problems(most_jobs=8, most_links=10))
def test_prices_prove_it_best(problem: Problem) -> None:
    """Complementary slackness (§IV-B) on sizes too large to enumerate: there are prices, on full links alone,
    that every job which sends just pays and no other job can."""
    weights, rows = problem
    shares = max_weight(*problem)
    assert_feasible(problem, shares)
    full = [row for row in rows if value(row, shares) > 1.0 - 1e-9]
    assert _prices_exist(full, weights, [share > 1e-9 for share in shares])


def _prices_exist(full: list[list[float]], weights: list[float], sends: list[bool]) -> bool:
    """λ ≥ 0 on the full links with Σ λ·A ≥ w, equal where the job sends: non-negative least squares."""
    matrix, target = np.array(full).T, np.array(weights)
    slack_columns = -np.eye(len(weights))[:, [not sending for sending in sends]]
    system = np.hstack([matrix, slack_columns])
    prices = _nnls(system, target)
    return bool(np.allclose(system @ prices, target, atol=1e-6 * max(weights)))


def _nnls(system: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Lawson and Hanson's active sets."""
    columns = system.shape[1]
    solution, passive = np.zeros(columns), np.zeros(columns, dtype=bool)
    for _ in range(10 * columns):
        gradient = system.T @ (target - system @ solution)
        gradient[passive] = -np.inf
        if passive.all() or gradient.max() <= 1e-9 * np.abs(target).max():
            break
        passive[int(gradient.argmax())] = True
        while True:
            trial = np.zeros(columns)
            trial[passive] = np.linalg.lstsq(system[:, passive], target, rcond=None)[0]
            if trial[passive].min() > 0.0:
                solution = trial
                break
            blocking = passive & (trial <= 0.0)
            step = (solution[blocking] / (solution[blocking] - trial[blocking] + 1e-300)).min()
            solution = solution + step * (trial - solution)
            passive &= solution > 1e-12
            solution[~passive] = 0.0
            if not passive.any():
                break
    return solution


@given(problems(), st.sampled_from([2.0**-20, 0.5, 2.0, 2.0**20]))
def test_only_ratios_of_weights_matter(problem: Problem, factor: float) -> None:
    weights, rows = problem
    scaled = max_weight([weight * factor for weight in weights], rows)
    assert value(weights, scaled) == pytest.approx(value(weights, max_weight(*problem)), rel=1e-7)


@given(problems(), st.randoms(use_true_random=False))
def test_no_order_of_jobs_or_links_is_better(problem: Problem, shuffler: object) -> None:
    weights, rows = problem
    order = list(range(len(weights)))
    shuffler.shuffle(order)  # type: ignore[attr-defined]
    links = list(rows)
    shuffler.shuffle(links)  # type: ignore[attr-defined]
    moved = max_weight([weights[job] for job in order], [[row[job] for job in order] for row in links])
    assert value([weights[job] for job in order], moved) == pytest.approx(
        value(weights, max_weight(*problem)), rel=1e-7
    )


@given(problems())
def test_the_same_input_gives_the_same_output(problem: Problem) -> None:
    assert max_weight(*problem) == max_weight(*problem)


def test_on_one_link_it_is_strict_priority() -> None:
    assert max_weight([1.0, 3.0, 2.0], [[1.0, 1.0, 1.0]]) == [0.0, 1.0, 0.0]


def test_what_the_first_cannot_use_goes_to_the_second() -> None:
    """The first job's bottleneck lies elsewhere; of the shared link it can use a quarter."""
    assert max_weight([1.0, 3.0], [[1.0, 0.25], [0.0, 1.0]]) == pytest.approx([0.75, 1.0])


def test_three_jobs_that_pairwise_share_a_link_get_half_each() -> None:
    """The odd cycle: 3/2 in total, where any order of the three serves 1."""
    rows = [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]
    assert max_weight([1.0, 1.0, 1.0], rows) == pytest.approx([0.5] * 3)


@pytest.mark.parametrize(("weight", "shares"), [(1.9, [0.0, 1.0, 1.0]), (2.1, [1.0, 0.0, 0.0])])
def test_a_job_on_two_links_must_be_worth_both_rivals(weight: float, shares: list[float]) -> None:
    rows = [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    assert max_weight([weight, 1.0, 1.0], rows) == pytest.approx(shares)


def test_equal_weights_are_broken_by_position() -> None:
    assert max_weight([1.0, 1.0], [[1.0, 1.0]]) == [1.0, 0.0]


def test_degenerate_corners_do_not_cycle() -> None:
    """Many equal constraints meeting in one point: Beale's example, scaled to the form used here."""
    rows = [[1.0, 0.5, 0.5, 0.25], [0.5, 1.0, 0.25, 0.5], [0.5, 0.25, 1.0, 0.5], [0.25, 0.5, 0.5, 1.0]] * 3
    shares = max_weight([1.0, 1.0, 1.0, 1.0], rows)
    assert value([1.0] * 4, shares) == pytest.approx(best_vertex_value([1.0] * 4, rows[:4]))

"""Theorem 1: one shift per job that is right on every link, if the graph has no loop."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.shifts.affinity import Weights, binding, components, has_loop, time_shifts
from paceline.flowcore.allocation.shifts.circle import Phase, Profile
from paceline.flowcore.allocation.shifts.plan import Link, plan
from paceline.flowcore.allocation.shifts.rotation import rotate


@st.composite
def forests(draw: st.DrawFn) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Links added one by one, each touching every part so far in at most one job: no loop can arise."""
    time_ms = st.integers(1, 400)
    iterations: dict[str, float] = {}
    part_of: dict[str, int] = {}
    weights: dict[str, dict[str, float]] = {}
    for number in range(draw(st.integers(1, 6))):
        parts = sorted(set(part_of.values()))
        touched = draw(st.lists(st.sampled_from(parts), unique=True, max_size=3)) if parts else []
        jobs = [draw(st.sampled_from([job for job in part_of if part_of[job] == part])) for part in touched]
        fresh = [f"j{len(part_of) + more}" for more in range(draw(st.integers(max(0, 2 - len(jobs)), 3)))]
        for job in fresh:
            iterations[job] = float(draw(time_ms))
        part_of |= {job: number for job in part_of if part_of[job] in touched}
        part_of |= dict.fromkeys(fresh, number)
        weights[f"l{number}"] = {job: float(draw(time_ms)) % iterations[job] for job in jobs + fresh}
    return weights, iterations


@given(forests())
def test_theorem_1_relative_shifts_hold_on_every_link(graph: tuple[Weights, dict[str, float]]) -> None:
    """Against what its link asked for, each job is moved by the same, but for whole iterations of its own."""
    weights, iterations = graph
    assert not any(has_loop(part) for part in components(weights))
    shifts = time_shifts(weights, iterations)
    assert shifts.keys() == iterations.keys()  # unique: each job has one
    for jobs in weights.values():
        for one in jobs:
            for other in jobs:
                moved = (shifts[one] - shifts[other]) - (jobs[one] - jobs[other])
                assert moved % math.gcd(int(iterations[one]), int(iterations[other])) == 0.0
    assert all(0.0 <= shifts[job] < iterations[job] for job in shifts)


def test_appendix_a_the_example_of_figure_8() -> None:
    weights = {"l1": {"j1": 5.0, "j2": 20.0}, "l2": {"j2": 7.0, "j3": 30.0}}
    shifts = time_shifts(weights, {"j1": 100.0, "j2": 100.0, "j3": 50.0})
    assert shifts == {"j1": 0.0, "j2": 15.0, "j3": (15.0 - 7.0 + 30.0) % 50.0}


def test_scores_of_all_links_survive_the_walk() -> None:
    """Three jobs in a chain over two links: shifted as the plan says, both links have their best score."""
    profile = Profile(120.0, (Phase(60.0, 40.0, 50.0),))
    short = Profile(60.0, (Phase(20.0, 18.0, 50.0),))
    links = {"l1": Link(50.0, {"a": profile, "b": short}), "l2": Link(50.0, {"b": short, "c": profile})}
    found = plan(links)
    assert not found.loop
    for link in links.values():
        moved = []
        for job, one in link.profiles.items():
            (up,) = one.phases
            start_ms = (up.start_ms + found.shifts_ms[job]) % one.iteration_ms
            moved.append(Profile(one.iteration_ms, (Phase(start_ms, up.length_ms, up.gbps),)))
        assert rotate(moved, 50.0).unrotated_score == pytest.approx(1.0)


def test_a_loop_is_seen_and_links_where_the_same_jobs_meet_are_none() -> None:
    loop = {"l1": {"a": 0.0, "b": 0.0}, "l2": {"b": 0.0, "c": 0.0}, "l3": {"c": 0.0, "a": 0.0}}
    assert [has_loop(part) for part in components(loop)] == [True]
    chain = {"l1": {"a": 0.0, "b": 0.0}, "l2": {"b": 0.0, "c": 0.0}, "l4": {"x": 0.0, "y": 0.0}}
    assert [has_loop(part) for part in components(chain)] == [False, False]
    assert binding({"up": {"a", "b"}, "down": {"a", "b"}, "spine": {"a", "b", "c"}, "own": {"c"}}) == ["spine"]

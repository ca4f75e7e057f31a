"""One link: the paper's example, and how near the search comes to trying everything."""

import random
from itertools import product
from time import perf_counter

import numpy as np
import pytest

from paceline.flowcore.allocation.borrowing import Floats
from paceline.flowcore.allocation.shifts.circle import ANGLES, Phase, Profile, bounded_perimeter, on_circle
from paceline.flowcore.allocation.shifts.rotation import excess, rotate, turned

CAPACITY_GBPS = 50.0


def drawn(draws: random.Random, times_ms: tuple[float, ...]) -> list[Profile]:
    """Jobs of one to three phases, some light, some heavy."""
    profiles = []
    for time_ms in times_ms:
        starts = sorted(draws.uniform(0.0, time_ms) for _ in range(draws.randint(1, 3)))
        ends = [*starts[1:], time_ms + starts[0]]
        phases = [
            Phase(start, draws.uniform(0.2, 0.7) * (end - start), draws.uniform(10.0, 50.0))
            for start, end in zip(starts, ends, strict=True)
        ]
        profiles.append(Profile(time_ms, tuple(phases)))
    return profiles


def best_of_all(profiles: list[Profile]) -> float:
    """The best score of every rotation by whole degrees."""
    perimeter_ms = bounded_perimeter([profile.iteration_ms for profile in profiles], 1.0)
    circles = [on_circle(profile, perimeter_ms) for profile in profiles]
    ranges = [round(ANGLES * profile.iteration_ms / perimeter_ms) for profile in profiles]
    *outer, last = [turned(circle, np.arange(most)) for circle, most in list(zip(circles, ranges, strict=True))[1:]]
    least = np.inf
    for rows in product(*outer):
        demand: Floats = circles[0] + sum(rows) - CAPACITY_GBPS
        least = min(least, float(np.maximum(demand + last, 0.0).sum(axis=1).min()))
    return 1.0 - least / ANGLES / CAPACITY_GBPS


def test_fig_5_jobs_of_40_and_60_ms_fit_after_a_turn_of_30_degrees() -> None:
    jobs = [Profile(60.0, (Phase(0.0, 10.0, 50.0),)), Profile(40.0, (Phase(0.0, 10.0, 50.0),))]
    found = rotate(jobs, CAPACITY_GBPS)
    assert found.perimeter_ms == 120.0
    assert found.degrees == (0.0, 30.0)
    assert found.score == pytest.approx(1.0)
    assert found.unrotated_score < 0.95
    assert found.shifts_ms(jobs) == pytest.approx((0.0, 10.0))


@pytest.mark.parametrize(
    ("times_ms", "links"),
    [
        ((100.0, 100.0), 30),
        ((120.0, 80.0), 30),
        ((90.0, 90.0, 90.0), 2),
        ((120.0, 60.0, 40.0), 15),
        pytest.param((240.0, 60.0, 80.0, 40.0), 3, marks=pytest.mark.slow),
        pytest.param((100.0, 25.0, 50.0, 20.0), 2, marks=pytest.mark.slow),
    ],
)
def test_the_score_is_within_two_hundredths_of_trying_every_degree(times_ms: tuple[float, ...], links: int) -> None:
    draws = random.Random(f"links of {times_ms}")
    for _ in range(links):
        profiles = drawn(draws, times_ms)
        assert rotate(profiles, CAPACITY_GBPS).score >= best_of_all(profiles) - 0.02


def test_the_score_is_that_of_the_rotation_and_can_be_negative() -> None:
    profiles = [Profile(100.0, (Phase(0.0, 90.0, 60.0),)) for _ in range(5)]
    found = rotate(profiles, CAPACITY_GBPS)
    circles = [on_circle(profile, 100.0) for profile in profiles]
    turns = [round(angle) for angle in found.degrees]
    assert found.score == pytest.approx(1.0 - excess(circles, turns, CAPACITY_GBPS) / CAPACITY_GBPS)
    assert found.score < 0.0


def test_three_jobs_take_milliseconds() -> None:
    """At most 50 ms of a quiet core; the best of five, since a busy machine is slow at times."""
    profiles = drawn(random.Random(3), (100.0, 100.0, 100.0))
    taken_s = []
    for _ in range(5):
        begun_s = perf_counter()
        rotate(profiles, CAPACITY_GBPS)
        taken_s.append(perf_counter() - begun_s)
    assert min(taken_s) < 0.050

"""Traffic around a circle: nothing is lost by rolling it up, and circles stay small."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.shifts.circle import (
    COARSEST,
    MOST_ITERATIONS,
    Phase,
    Profile,
    on_circle,
    on_grid,
    perimeter,
)

times = st.floats(20.0, 2000.0)


def test_the_unified_circle_of_40_and_60_ms_has_120_units() -> None:
    assert perimeter([40.0, 60.0], 1.0) == 120.0


def test_fig_3_a_down_phase_of_141_of_255_ms_covers_200_degrees() -> None:
    circle = on_circle(Profile(255.0, (Phase(141.0, 114.0, 40.0),)), 255.0)
    assert (circle[:199] == 0.0).all()
    assert circle[200:] == pytest.approx(40.0)


@given(times, st.lists(st.tuples(st.floats(0, 0.99), st.floats(0.01, 1.0), st.floats(0.1, 50.0)), max_size=6))
def test_a_circle_holds_what_an_iteration_sends(time_ms: float, drawn: list[tuple[float, float, float]]) -> None:
    """Several phases, some over the end of the iteration, as pipeline and hybrid parallel jobs have."""
    phases = tuple(Phase(start * time_ms, length * time_ms, gbps) for start, length, gbps in drawn)
    circle = on_circle(Profile(time_ms, phases), 3 * time_ms)
    sent = sum(phase.length_ms * phase.gbps for phase in phases)
    assert circle.mean() * time_ms == pytest.approx(sent)
    assert np.roll(circle, 120) == pytest.approx(circle, abs=1e-6)  # three iterations on it


@given(st.dictionaries(st.sampled_from("abcd"), times, min_size=2))
def test_rounding_is_upward_and_by_less_than_drift(times_ms: dict[str, float]) -> None:
    rounded, grid_ms = on_grid(times_ms, [tuple(times_ms)])
    assert grid_ms <= COARSEST * min(times_ms.values()) * (1 + 1e-9)
    for job, time_ms in times_ms.items():
        assert -1e-6 <= rounded[job] - time_ms <= grid_ms * (1 + 1e-6)
        assert math.isclose(rounded[job] / grid_ms, round(rounded[job] / grid_ms), abs_tol=1e-6)


def test_times_with_a_small_multiple_are_kept_and_others_share_a_coarser_grid() -> None:
    assert on_grid({"a": 40.0, "b": 60.0}, ["ab"]) == ({"a": 40.0, "b": 60.0}, 1.0)
    rounded, grid_ms = on_grid({"a": 201.0, "b": 397.0}, ["ab"])
    assert perimeter(list(rounded.values()), grid_ms) <= MOST_ITERATIONS * 201.0 * 1.05

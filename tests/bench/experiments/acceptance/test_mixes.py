"""When a job is in step, and what the simulator expects of a mix."""

import pytest

from bench.experiments.acceptance.mixes import _in_step_rows, _in_step_s, scenario_named, simulated_slowdown
from paceline.sim.run import run


def test_a_job_is_in_step_from_its_first_good_window_on() -> None:
    assert _in_step_s([2.0] * 4 + [1.0] * 10, alone_s=1.0) == pytest.approx(4 * 2.0)
    assert _in_step_s([1.0] * 8, alone_s=1.0) == 0.0
    assert _in_step_s([1.0] * 8 + [2.0], alone_s=1.0) is None  # one window of five is bad
    assert _in_step_s([1.0] * 3, alone_s=1.0) is None
    assert _in_step_s([2.0] * 20, alone_s=1.0) is None


def test_one_slow_iteration_late_in_a_run_changes_nothing() -> None:
    steady = [1.0] * 100
    assert _in_step_s([2.0, *steady, 2.0, *steady], alone_s=1.0) == pytest.approx(2.0)
    every_sixth = ([1.0] * 5 + [2.0]) * 20
    assert _in_step_s(every_sixth, alone_s=1.0) is None


def test_a_run_that_is_never_in_step_counts_in_the_median() -> None:
    rows = _in_step_rows({"reno": [1.0, None, 3.0], "cubic": [1.0, None, None], "bbr": [1.0, 2.0], "mlcc": [1.0, None]})
    assert rows == [
        ("reno", "3.0", "1 of 3"),
        ("cubic", "never", "2 of 3"),
        ("bbr", "1.5", "0 of 2"),
        ("mlcc", "never", "1 of 2"),
    ]


def test_the_simulated_links_carry_the_payload_only() -> None:
    """Load 0.975 of their payload: three jobs fit, and a link of 4 % less would be too narrow for them."""
    assert simulated_slowdown(scenario_named("mix-3")) == pytest.approx(1.0, abs=1e-6)
    crowded = scenario_named("mix-1")
    assert 1.0 < run(crowded, "paceline").mean_slowdown < simulated_slowdown(crowded) < 1.3

"""The promises are decided as they are written."""

import pytest

from bench.experiments.acceptance.criteria import CRUDE, acceptance_checks
from bench.experiments.acceptance.mixes import _in_step_rows, _in_step_s, scenario_named, simulated_slowdown
from paceline.sim.run import run

KEPT = {"reno": 1.4, "cubic": 1.4, "bbr": 1.6, "paceline": 1.0}


def measured(of: dict[str, dict[str, float]]) -> dict[str, object]:
    return {
        name: {
            "controls": [
                {"control": control, "mean_slowdown": value, "whole_run_slowdown": value}
                for control, value in slowdowns.items()
            ]
        }
        for name, slowdowns in of.items()
    }


def verdicts(of: dict[str, dict[str, float]]) -> dict[str, bool | None]:
    return {check.claim: check.passed for check in acceptance_checks(measured(of))}


def every(slowdowns: dict[str, float]) -> dict[str, dict[str, float]]:
    return dict.fromkeys((*CRUDE, "identical", "ps-and-ring", "two-tors"), slowdowns)


def test_all_promises_can_be_kept_and_broken() -> None:
    assert set(verdicts(every(KEPT)).values()) == {True}
    assert set(verdicts(every(KEPT | {"paceline": 1.7})).values()) == {False}


@pytest.mark.parametrize(
    ("name", "slowdowns", "claim"),
    [
        ("mix-2", {"paceline": 1.34}, "mix-2, steady state: at least 5 % below the best TCP"),
        ("mix-3", {"paceline": 1.01}, "mix-3: no worse than the crude controller's 1.007"),
        ("identical", {"paceline": 1.3}, "identical, whole run: at least 20 % below bbr"),
        ("identical", {"reno": 0.97}, "identical: at most 2 % above the best TCP's steady state"),
        ("two-tors", {"paceline": 1.4}, "two-tors, steady state: better than the best TCP"),
    ],
)
def test_each_promise_has_its_own_threshold(name: str, slowdowns: dict[str, float], claim: str) -> None:
    assert verdicts(every(KEPT))[claim] is True
    assert verdicts(every(KEPT) | {name: KEPT | slowdowns})[claim] is False


def test_averages_need_all_five_mixes() -> None:
    some = verdicts({name: of for name, of in every(KEPT).items() if name != "mix-5"})
    averages = [passed for claim, passed in some.items() if claim.startswith("all mixes")]
    assert averages == [None] * 4


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


def test_who_never_falls_into_step_counts_in_the_median() -> None:
    rows = _in_step_rows({"reno": [1.0, None, 3.0], "cubic": [1.0, None, None], "bbr": [1.0, 2.0], "mlcc": [1.0, None]})
    assert rows == [
        ("reno", "3.0", "1 of 3"),
        ("cubic", "never", "2 of 3"),
        ("bbr", "1.5", "0 of 2"),
        ("mlcc", "never", "1 of 2"),
    ]


def test_what_the_simulator_expects_is_of_links_with_headers() -> None:
    """Load 0.975 of their payload: three jobs fit, and a link of 4 % less would be too narrow for them."""
    assert simulated_slowdown(scenario_named("mix-3")) == pytest.approx(1.0, abs=1e-6)
    crowded = scenario_named("mix-1")
    assert 1.0 < run(crowded, "paceline").mean_slowdown < simulated_slowdown(crowded) < 1.3

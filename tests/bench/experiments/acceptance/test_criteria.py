"""The criteria are decided as they are written."""

import pytest

from bench.experiments.acceptance.criteria import CRUDE, acceptance_checks

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


def test_all_criteria_can_be_met_and_missed() -> None:
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
def test_each_criterion_has_its_own_threshold(name: str, slowdowns: dict[str, float], claim: str) -> None:
    assert verdicts(every(KEPT))[claim] is True
    assert verdicts(every(KEPT) | {name: KEPT | slowdowns})[claim] is False


def test_averages_need_all_five_mixes() -> None:
    some = verdicts({name: of for name, of in every(KEPT).items() if name != "mix-5"})
    averages = [passed for claim, passed in some.items() if claim.startswith("all mixes")]
    assert averages == [None] * 4

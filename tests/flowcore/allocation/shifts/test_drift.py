"""Communications that are a little late start, those that are early or missed their time wait."""

import pytest

from paceline.flowcore.allocation.shifts.drift import adjusts, slack, wait_ns


@pytest.mark.parametrize(
    ("now", "waits"), [(1000, 0), (1015, 0), (1016, 84), (1099, 1), (1100, 0), (999, 1), (9951, 49)]
)
def test_a_little_late_is_late_and_more_is_early(now: int, waits: int) -> None:
    assert wait_ns(now, 1000, 100) == waits


def test_slack_is_four_standard_deviations_of_the_computing() -> None:
    assert slack(0.01, 600.0, 1000.0) == pytest.approx(0.024)
    assert slack(0.0, 600.0, 1000.0) == 0.0


@pytest.mark.parametrize(
    ("now", "counts"), [(1000, False), (1005, False), (1006, True), (1050, True), (1051, False), (999, False)]
)
def test_a_twentieth_of_an_iteration_late_is_an_adjustment(now: int, counts: bool) -> None:
    assert adjusts(now, 1000, 100) == counts

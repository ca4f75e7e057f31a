"""Percentiles of the last decisions."""

import pytest

from hostd.introspect.durations import KEPT, Durations


def test_percentiles_are_of_the_last_ones() -> None:
    durations = Durations()
    assert durations.percentiles_ms() == {"p50": 0.0, "p90": 0.0, "p99": 0.0}
    for _ in range(10):
        durations.note(9.0)
    for number in range(KEPT):
        durations.note(number / KEPT)
    assert durations.count == KEPT + 10
    assert durations.percentiles_ms() == pytest.approx({"p50": 500, "p90": 900, "p99": 990}, rel=0.01)

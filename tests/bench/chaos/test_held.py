"""What is said of held bursts whose hostd was stopped or killed; the run itself is `paceline bench chaos --held`."""

import pytest

from bench.chaos.held import MOST_SLOTS, SLOTS, Result, document, lines

SLOT_S = SLOTS.length_ms / 1e3


def result(slowest_s: float, pages_left: int = 0) -> Result:
    return Result({"SIGSTOP": [0.2, slowest_s], "SIGKILL": [0.1]}, 40, pages_left)


@pytest.mark.parametrize(
    ("slowest_slots", "pages_left", "passed"), [(9.9, 0, True), (MOST_SLOTS + 0.1, 0, False), (5.0, 1, False)]
)
def test_every_burst_goes_within_its_slots_and_nothing_is_left(
    slowest_slots: float, pages_left: int, passed: bool
) -> None:
    found = result(slowest_slots * SLOT_S, pages_left)
    assert found.passed is passed is document(found)["pass"]
    assert document(found)["slowest_slots"] == pytest.approx(slowest_slots)


def test_lines_are_for_people() -> None:
    first, second, last = lines(result(0.3))
    assert first.startswith("SIGSTOP: 2 held bursts went after 250 ms, 300 at most") and second.startswith("SIGKILL: 1")
    assert last.startswith("5.0 slots at most, 10 promised; no job failed in 40 iterations")

"""A flood is a line per key and interval, however many keys a peer invents."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from paceline.service.log_rate_limit import LogRateLimit


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_next_line_says_how_many_were_held_back(caplog) -> None:
    clock = Clock()
    limit = LogRateLimit(every_s=10, clock=clock)
    logger = logging.getLogger("test")
    for _ in range(5):
        limit.log(logger, logging.WARNING, "h0", "bad horizon from %s", "h0", extra={"host": "h0"})
    limit.log(logger, logging.WARNING, "h1", "bad horizon from %s", "h1")
    clock.now_s = 10
    limit.log(logger, logging.WARNING, "h0", "bad horizon from %s", "h0", extra={"host": "h0"})
    assert [record.args for record in caplog.records] == [("h0",), ("h1",), ("h0",)]
    assert [getattr(record, "held_back", None) for record in caplog.records] == [None, None, 4]
    assert caplog.records[0].host == "h0"
    assert caplog.records[0].funcName == "test_the_next_line_says_how_many_were_held_back"


def test_inventing_names_gets_no_more_lines() -> None:
    clock = Clock()
    limit = LogRateLimit(every_s=10, max_keys=8, clock=clock)
    passed = sum(limit.passes(f"name-{number}") is not None for number in range(10_000))
    assert passed == 8 + 1  # and one that stands for all others
    clock.now_s = 10
    assert limit.passes("name-0") == 0  # room again


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 5))))
def test_lines_and_memory_are_bounded(events: list[tuple[int, float]]) -> None:
    clock = Clock()
    limit = LogRateLimit(every_s=10, max_keys=8, clock=clock)
    lines = 0
    for key, pause_s in events:
        clock.now_s += pause_s
        lines += limit.passes(key) is not None
        assert len(limit._windows) <= 8 + 1
    assert lines <= (8 + 1) * (clock.now_s // 10 + 1)

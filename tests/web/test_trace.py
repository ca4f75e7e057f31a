"""The trace: tracks, slices and counters that follow from the timelines."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paceline.web.board import Board, Daemon
from paceline.web.trace import trace_document


def trace_of(samples: dict[int, dict[str, float]], slot_s: float = 0.06) -> list[dict[str, Any]]:
    switch = Daemon("s0", "switch", "127.0.0.1:7470")
    timeline = switch.timeline("h0->s0", "promised", 1e9, slot_s)
    assert timeline is not None
    for slot, rates_bps in sorted(samples.items()):
        timeline.add(slot, rates_bps)
    board = Board()
    board.daemons.append(switch)
    found: list[dict[str, Any]] = trace_document(board.state()["links"], board.history(0))["traceEvents"]
    return found


def test_a_burst_is_one_slice_and_a_gap_ends_it() -> None:
    samples = {10: {"a": 1e8}, 11: {"a": 3e8}, 12: {}, 13: {"a": 2e8, "b": 1e8}, 15: {"b": 1e8}}
    events = trace_of(samples)
    slices = [(one["name"], one["ts"], one["dur"], one["args"]["mean Mbit/s"]) for one in events if one["ph"] == "X"]
    slot_us = 60_000.0
    assert slices == [
        ("a", 0.0, 2 * slot_us, 200.0),
        ("a", 3 * slot_us, slot_us, 200.0),
        ("b", 3 * slot_us, slot_us, 100.0),
        ("b", 5 * slot_us, slot_us, 100.0),
    ]
    names = [one["args"]["name"] for one in events if one["ph"] == "M" and "name" in one["args"]]
    assert names == ["h0->s0 promised by s0", "a", "b"]
    loads = [(one["ts"], one["args"]["load"]) for one in events if one["ph"] == "C"]
    expected = [100.0, 300.0, 0.0, 300.0, 0.0, 100.0, 0.0]
    assert loads == [(at * slot_us, load) for at, load in zip((0, 1, 2, 3, 4, 5, 6), expected, strict=True)]


def test_a_link_without_samples_is_not_there() -> None:
    assert trace_of({}) == []


@given(st.dictionaries(st.integers(0, 200), st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**9))))
def test_slices_cover_exactly_the_slots_with_a_rate(samples: dict[int, dict[str, float]]) -> None:
    events = trace_of(samples, slot_s=1.0)
    first = min(samples, default=0)
    for job in "abc":
        covered = {
            first + round(one["ts"] / 1e6) + step
            for one in events
            if one["ph"] == "X" and one["name"] == job
            for step in range(round(one["dur"] / 1e6))
        }
        newest = max(samples, default=0)
        wanted = {slot for slot, rates in samples.items() if rates.get(job, 0) > 0 and slot > newest - 60}
        if newest - first < 60:
            assert covered == wanted

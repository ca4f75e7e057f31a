"""What the page is told: daemons that are away, bounded links, three levels of one timeline."""

import json

import pytest

from paceline.web import board as board_module
from paceline.web.board import Board, Daemon


def board_of(*daemons: Daemon) -> Board:
    board = Board()
    board.daemons += daemons
    return board


def test_a_daemon_that_is_away_keeps_its_timeline_and_no_jobs() -> None:
    host = Daemon("h0", "host", "/run/x")
    host.facts, host.jobs = {"mode": "enforce"}, [{"name": "bert"}]
    timeline = host.timeline("h0->s0", "measured", 1e9, 0.06)
    assert timeline is not None
    timeline.add(100, {"bert": 5e8})
    host.heard()
    board = board_of(host)
    state = board.state()
    assert state["daemons"][0]["mode"] == "enforce" and not state["daemons"][0]["away"]
    assert [row["name"] for row in state["jobs"]] == ["bert"] and state["jobs"][0]["daemon"] == "h0"
    host.lost("no hostd listens there")
    state = board.state()
    assert state["daemons"][0]["away"] and state["daemons"][0]["why"] == "no hostd listens there"
    assert state["jobs"] == [] and state["links"][0]["away"] and "mode" not in state["daemons"][0]
    assert board.history(0)["links"]["h0 h0->s0"]["jobs"] == {"bert": [500_000_000]}


def test_three_levels_of_the_same_samples() -> None:
    switch = Daemon("s0", "switch", "127.0.0.1:7470")
    timeline = switch.timeline("h0->s0", "promised", 1e9, 0.06)
    assert timeline is not None
    for slot in range(10_000):  # ten minutes
        timeline.add(slot, {"a": 6e8 if slot % 2 else 2e8})
    board = board_of(switch)
    lengths = [len(board.history(level)["links"]["s0 h0->s0"]["buckets"]) for level in range(3)]
    assert lengths == [1000, 600, 120]
    coarse = board.history(2)["links"]["s0 h0->s0"]["jobs"]["a"]
    assert all(abs(mean - 4e8) < 1e7 for mean in coarse)
    assert board.history(0, {"s0 h0->s0": 9_997})["links"]["s0 h0->s0"]["buckets"] == [9_998, 9_999]
    assert board.history(0, {"s0 h0->s0": 9_999})["links"] == {}
    json.dumps(board.state(), allow_nan=False)


def test_links_beyond_the_bound_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "MOST_LINKS", 2)
    switch = Daemon("s0", "switch", "127.0.0.1:7470")
    made = [switch.timeline(f"h{number}->s0", "promised", 1e9, 0.06) for number in range(3)]
    assert made[2] is None and made[0] is not None
    assert switch.timeline("h0->s0", "promised", 1e9, 0.06) is made[0]
    assert switch.timeline("h0->s0", "promised", 2e9, 0.06) is not made[0]  # another link by the same name

"""A line per job and minute, bounded, and never in the way."""

import time
from pathlib import Path

import pytest

from hostd.history import history
from hostd.history.history import BEFORE, NAME, History, read_history, state_directory
from hostd.history.line import Minute


def minute(time_s: float, job: str = "a", paced: bool = False, iteration_ms: float = 100.0) -> Minute:
    return Minute(int(time_s), job, "enforce" if paced else "observe", paced, 10, iteration_ms, 1.5)


def test_what_is_written_is_read_and_what_is_older_is_not(tmp_path: Path) -> None:
    now_s = time.time()
    kept = History(tmp_path)
    kept.write([minute(now_s - 7200), minute(now_s - 60, "b")])
    kept.write([minute(now_s, paced=True)])
    assert [one.job for one in read_history([tmp_path])] == ["a", "b", "a"]
    assert [one.paced for one in read_history([tmp_path], since_s=3600)] == [False, True]


def test_lines_that_were_cut_short_are_left_out(tmp_path: Path) -> None:
    good = minute(time.time())
    (tmp_path / NAME).write_text(good.to_line() + good.to_line()[:30] + "\n7\n{}\n[]\n" + good.to_line())
    assert list(read_history([tmp_path])) == [good, good]


def test_its_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_BYTES", 2000)
    kept = History(tmp_path)
    for number in range(100):
        kept.write([minute(number)])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * 2000 + 200
    times_s = [one.time_s for one in read_history([tmp_path])]
    assert times_s[-1] == 99 and times_s == sorted(times_s) and (tmp_path / BEFORE).exists()


def test_a_directory_that_cannot_be_written_to_ends_it_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = History(tmp_path / "gone")
    for _ in range(3):
        kept.write([minute(1)])
    assert not kept.is_kept and len(caplog.records) == 1


def test_its_directory_is_the_configured_one_or_systemds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    assert state_directory(None) is None and not History(None).is_kept
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/one:/var/lib/other")
    assert state_directory(None) == Path("/var/lib/one")
    assert state_directory(Path("/mine")) == Path("/mine")

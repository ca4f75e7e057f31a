"""Before and after, from the history."""

import time
from pathlib import Path

import pytest

from hostd.history.history import History
from paceline.cli import main
from tests.commands.output import one_line, run_json
from tests.hostd.history.test_history import minute


def test_before_and_after_of_each_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now_s = time.time()
    History(tmp_path).write(
        [
            minute(now_s - 90_000, "0/bert", iteration_ms=900.0),
            minute(now_s - 3600, "0/bert", iteration_ms=210.0),
            minute(now_s - 3500, "0/bert", iteration_ms=190.0),
            minute(now_s - 60, "0/bert", paced=True, iteration_ms=150.0),
            minute(now_s - 60, "0/new", paced=True),
        ]
    )
    where = ["report", "--state-directory", str(tmp_path)]
    _, found = run_json([*where, "--since", "1d"], capsys)
    bert, new = found["jobs"]
    assert (bert["name"], new["name"]) == ("bert", "new")
    assert bert["before"]["iteration_ms"] == 200.0 and bert["before"]["iterations"] == 20
    assert bert["after"]["iteration_ms"] == 150.0 and bert["change_percent"] == -25.0
    assert new["before"] is None and new["change_percent"] is None
    assert main([*where, "--since", "1d"]) == 0
    text = capsys.readouterr().out
    assert "bert" in text and "-25.0" in text
    assert main([*where, "--since", "1s"]) == 0
    assert "no iterations" in capsys.readouterr().out


@pytest.mark.parametrize("since", ["", "d", "-1d", "0", "nan", "1w", "1e999d"])
def test_a_time_that_is_none_is_one_line(since: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", f"--since={since}"]) == 2
    assert "expected a time such as" in one_line(capsys)


def test_without_a_history_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--state-directory", str(tmp_path)]) == 2
    assert "no history" in one_line(capsys)

"""`paceline bench chaos`, with runs made by hand."""

import json

import pytest

from bench.chaos import run as chaos_run
from bench.chaos.run import Result, Setup
from bench.testbed import rootless
from paceline.cli import main
from tests.bench.chaos.test_judge import calm, slow, unpaced


@pytest.fixture
def setups(monkeypatch: pytest.MonkeyPatch) -> list[Setup]:
    """What was asked for; the run has a hostd that was killed and whose limits stayed for a second."""
    asked: list[Setup] = []

    def run(setup: Setup, progress: object) -> Result:
        asked.append(setup)
        seen = calm(*setup.kinds)
        if "kill-hostd" in setup.kinds:
            unpaced(seen, 11.0, 14.0)
            slow(seen, "b", 12.0, 2.0)
        plan = tuple(done.fault for done in seen.faults)
        return Result(plan, seen, {"full-disk": "no mounts here"} if "full-disk" in setup.kinds else {}, 0.1)

    monkeypatch.setattr(chaos_run, "run", run)
    monkeypatch.setattr(rootless, "ensure_networks", lambda: None)
    return asked


def test_json_names_what_was_broken_and_how_to_repeat_it(
    setups: list[Setup], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--seed", "9", "--duration", "30", "--kinds", "kill-hostd,mtu", "--synthetic"]
    assert main(["bench", "chaos", "--json", *arguments]) == 1
    assert setups == [Setup(9, 30.0, ("kill-hostd", "mtu"), True)]
    found = json.loads(capsys.readouterr().out)
    assert found["repeat"] == "paceline bench chaos --seed 9 --duration 30 --kinds kill-hostd,mtu --synthetic"
    assert [one.split(":")[0] for one in found["violations"]] == [
        "limits are lifted within 10 slots of hostd's end",
        "training runs at full speed within 10 slots of a daemon's end",
    ]
    assert {"commit", "machine", "seed"} <= found.keys() and found["faults"][0]["kind"] == "kill-hostd"
    assert [(row["kind"], row["faults"]) for row in found["by_kind"]] == [("kill-hostd", 1), ("mtu", 1)]


def test_a_table_and_verdicts_for_people(setups: list[Setup], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "chaos", "--kinds", "full-disk,mtu"]) == 0
    said = capsys.readouterr().out
    assert "left out: full-disk: no mounts here" in said and "BROKEN" not in said and "again:" not in said
    assert main(["bench", "chaos", "--kinds", "kill-hostd"]) == 1
    said = capsys.readouterr().out
    assert "BROKEN limits are lifted" in said
    assert "again: paceline bench chaos --seed 1 --duration 600 --kinds kill-hostd" in said


def test_a_kind_that_is_none(setups: list[Setup], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "chaos", "--kinds", "kill-hosts"]) == 2
    assert "did you mean 'kill-hostd'?" in capsys.readouterr().err
    assert setups == []

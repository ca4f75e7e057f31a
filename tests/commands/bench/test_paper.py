"""`paceline bench paper` for real: quick experiments over the emulated network, kept, and resumed."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.experiment import COMPARED, CONTROLS
from bench.experiments.registry import EXPERIMENTS
from bench.jobs import cases as jobs_cases
from bench.report.page import read_results
from paceline import cli
from tests.bench.conftest import fake_runs

__all__ = ["fake_runs"]  # a fixture

pytestmark = [pytest.mark.root, pytest.mark.slow]


def paper(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.main(["bench", "paper", *arguments, "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_quick_experiments_are_measured_kept_and_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("alone", "delay", "--quick", "--out", str(tmp_path))
    first = paper(capsys, *asked)
    assert [document["experiment"] for document in first["experiments"]] == ["alone", "delay"]
    alone, delay = first["experiments"]
    assert {row["control"] for row in alone["result"]["rows"]} == set(CONTROLS)
    # 25 MB and 0.2 s, sped up by four: 0.05 s of computing and as much of sending.
    assert all(0.09 < row["iteration_s"] < 5 for row in alone["result"]["rows"])
    assert 0 < delay["result"]["negotiations"]["6 hosts, 1 switch"]["p50_ms"] < 60
    assert alone["quick"] and alone["machine"]["cpus"] and alone["commits"] == [alone["commit"]]

    made: list[str] = []
    run_once = jobs_cases.run_once

    def counted(scenario: Any, control: Any, *rest: Any) -> Any:
        made.append(control.name)
        return run_once(scenario, control, *rest)

    monkeypatch.setattr(jobs_cases, "run_once", counted)
    assert paper(capsys, *asked)["experiments"] == first["experiments"]
    assert made == []
    assert (alone["repeats"], alone["controls"]) == (1, [*CONTROLS])
    assert (delay["repeats"], delay["controls"]) == (1, [])
    # It does not repeat and has no controls: what was measured serves.
    other = ("--repeat", "3", "--control", "reno,cubic,bbr,paceline")
    assert paper(capsys, "delay", *asked[2:], *other)["experiments"] == [delay]

    # As after an interruption: no result yet, and the last run not over.
    (tmp_path / "alone.json").unlink()
    runs = tmp_path / "alone.runs.jsonl"
    kept = runs.read_text().splitlines(keepends=True)
    runs.write_text("".join(kept[:-1]))
    [resumed, _] = paper(capsys, *asked)["experiments"]
    assert {*made} == {json.loads(kept[-1])["control"]}  # twice where the machine stood still
    earlier_s = sum(json.loads(line)["took_s"] for line in kept[:-1])
    assert 0 < earlier_s < alone["wall_s"]
    assert resumed["wall_s"] > earlier_s

    # Fewer controls: another result, and no run that is not there already.
    made.clear()
    [few] = paper(capsys, "alone", *asked[2:], "--control", "reno,cubic,bbr,paceline")["experiments"]
    assert made == [] and {row["control"] for row in few["result"]["rows"]} == {*COMPARED}


@pytest.mark.usefixtures("fake_runs")
def test_some_cases_are_not_taken_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("loss", "--repeat", "1", "--out", str(tmp_path))
    some, every = paper(capsys, *asked, "--case", "1"), paper(capsys, *asked)
    assert {row["loss"] for row in some["experiments"][0]["result"]["rows"]} == {0.0, 0.01}
    assert {row["loss"] for row in every["experiments"][0]["result"]["rows"]} == {0.0, 0.002, 0.01}
    paper(capsys, *asked, "--case", "1")
    assert read_results(tmp_path)["loss"]["result"] == every["experiments"][0]["result"]


def test_experiments_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [one["name"] for one in paper(capsys, "--list")["experiments"]] == list(EXPERIMENTS)
    assert cli.main(["bench", "paper", "--list"]) == 0
    assert "Fig. 12" in capsys.readouterr().out


def test_a_name_that_is_none_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "paper", "mixs"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "paceline: no experiment 'mixs'; did you mean 'mixes'?\n")


def test_runs_of_other_cases_are_not_thrown_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "paper", "loss", "--case", "1", "--force"]) == 2
    assert capsys.readouterr().err.startswith("paceline: --force throws away the runs of all cases;")


@pytest.mark.parametrize(
    ("controls", "line"),
    [
        ("reno,cubic,paceline", "--control: without bbr the experiments compare nothing; add it"),
        ("reno,cubic,bbr,pacelin", "no control 'pacelin'; expected one of reno, cubic"),
        ("reno,cubic,bbr,paceline,ccml", "no control 'ccml'; expected one of reno, cubic"),  # it has no daemons
    ],
)
def test_no_experiment_without_the_baselines(capsys: pytest.CaptureFixture[str], controls: str, line: str) -> None:
    assert cli.main(["bench", "paper", "alone", "--control", controls]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"paceline: {line}") and err.count("\n") == 1

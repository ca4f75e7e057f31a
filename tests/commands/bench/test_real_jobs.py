"""`paceline bench real-jobs`: what is refused and listed, and one case for real."""

import json
from pathlib import Path

import pytest

from bench.experiments.acceptance.real_job_cases import JOBS, PAIRS
from bench.report.page import read_results
from paceline import cli


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--case", "fsdq+plain"], "no case 'fsdq+plain'; did you mean 'fsdp+plain'?"),
        (["--case", "everything"], "--list says what there is"),
        (["--control", "cubic"], "expected paceline and at least one of reno, cubic, bbr"),
        (["--control", "paceline,mlcc"], "expected paceline and at least one of"),
        (["--control", "cubic,paceline,vegas"], "'vegas'"),
        (["--duration", "1"], "a number from 2"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "real-jobs", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_cases_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "real-jobs", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["case"] for one in listed["cases"]] == [*PAIRS]
    assert listed["alone"] == [*JOBS]
    assert cli.main(["bench", "real-jobs", "--list", "--case", "fsdp+plain"]) == 0
    out = capsys.readouterr().out
    assert "fsdp+plain" in out and "overlap" not in out


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.torch
def test_a_case_is_measured_and_can_be_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--case", "fsdp+plain-cross", "--control", "cubic,paceline", "--duration", "4", "--repeat", "1"]
    assert cli.main(["bench", "real-jobs", *asked, "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() >= {"experiment", "machine", "commit", "seed", "repeats", "controls", "result"}
    [row] = document["result"]["rows"]
    assert [job["workload"] for job in row["jobs"]] == ["fsdp", "ddp"]
    assert all(0.5 < one["slowdown"] < 5 for one in row["controls"].values())
    assert read_results(tmp_path)["real-jobs"] == document
    runs = (tmp_path / "real-jobs.runs.jsonl").read_text()
    assert cli.main(["bench", "real-jobs", *asked, "--out", str(tmp_path)]) == 0
    assert "fsdp+plain-cross" in capsys.readouterr().out
    assert (tmp_path / "real-jobs.runs.jsonl").read_text() == runs  # made once

"""`paceline sim testbed`: measurements beside the simulator, and wrong files in one line."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from tests.commands.output import one_line, run_json

SCENARIO = """
version = 1
name = "two"
duration_s = 4.0
topology = { kind = "star", hosts = 2, link_gbps = 1.0 }

[[job]]
name = "a"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 25.0
compute_s = 0.3

[[job]]
name = "b"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 25.0
compute_s = 0.3
"""


def measured(directory: Path, **slowdowns: float) -> list[str]:
    """The arguments for a file with these."""
    (directory / "two.toml").write_text(SCENARIO)
    controls = [{"control": name, "mean_slowdown": value} for name, value in slowdowns.items()]
    found = {"result": {"measured": {"two": {"controls": controls}}}}
    (directory / "mixes.json").write_text(json.dumps(found))
    return [str(directory / "mixes.json"), "--scenarios", str(directory), "--scenario", "two"]


def test_a_policy_is_judged_and_tcp_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = measured(tmp_path, cubic=3.0, paceline=1.005, gate=1.0)
    _, found = run_json(["sim", "testbed", *given], capsys)
    assert found["agree"] is True
    rows = {row["control"]: row for row in found["rows"]}
    assert rows.keys() == {"cubic", "paceline"}, "what the simulator has no likeness of is left out"
    assert rows["cubic"]["policy"] == "fair" and not rows["cubic"]["judged"]
    # Two jobs that fit one after the other take turns.
    assert rows["paceline"]["simulated"] == pytest.approx(1.0, abs=1e-3)
    assert rows["paceline"]["ratio"] == pytest.approx(1 / 1.005, abs=1e-3)


def test_a_policy_that_is_far_off_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "testbed", *measured(tmp_path, paceline=1.05)]) == 1
    assert "differs" in capsys.readouterr().out


def test_what_was_not_measured_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = measured(tmp_path, paceline=1.0)[:-1]
    assert main(["sim", "testbed", *given, "other"]) == 2
    assert "no measurement of 'other'" in one_line(capsys)

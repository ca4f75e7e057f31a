"""`paceline cluster circle`: the paper's examples as people see them, and wrong files in one line."""

import json
from pathlib import Path

import pytest

from paceline.cli import main

CIRCLES = Path(__file__).parents[2] / "scenarios" / "circles"
LCM = (CIRCLES / "lcm.toml").read_text()

# CASSINI, Table 2.
PAPER_SCORES = {"snapshot 1": 1.0, "snapshot 2": 1.0, "snapshot 3": 0.9, "snapshot 4": 0.8, "snapshot 5": 0.6}


@pytest.mark.slow
def test_the_lcm_example_and_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "circles.png"
    assert main(["cluster", "circle", str(CIRCLES / "lcm.toml"), "--json", "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["links"][0]["degrees"] == {"j2": 0.0, "j1": 30.0}
    assert found["score"] == pytest.approx(1.0)
    assert found["shifts_ms"] == {"j2": 0.0, "j1": pytest.approx(10.0)}
    assert found["commit"] is None or found["commit"]
    assert out.stat().st_size > 10_000


def test_the_snapshots_rank_as_in_table_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "circle", str(CIRCLES / "snapshots.toml"), "--json"]) == 0
    scores = {link["link"]: link["score"] for link in json.loads(capsys.readouterr().out)["links"]}
    assert scores == pytest.approx(PAPER_SCORES, abs=0.1)
    ranked = [round(score, 2) for score in scores.values()]
    assert ranked == sorted(ranked, reverse=True)


def test_jobs_of_many_phases_make_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "circle", str(CIRCLES / "parallel.toml")]) == 0
    assert "hybrid" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (LCM.replace('jobs = ["j2", "j1"]', 'jobs = ["j2", "j3"]'), "link[0].jobs[1]: found 'j3'"),
        (LCM.replace("[[0.0, 10.0, 50.0]]", "[[70.0, 10.0, 50.0]]"), "job[0].phases[0]"),
        (LCM.replace("iteration_ms = 40.0", "iteration_ms = 0"), "job[1].iteration_ms: found 0"),
        (LCM.replace('name = "j1"', 'name = "j2"'), "job[1].name: found 'j2'"),
        ("nonsense", "no TOML"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str, said: str) -> None:
    path = tmp_path / "links.toml"
    path.write_text(wrong)
    assert main(["cluster", "circle", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1

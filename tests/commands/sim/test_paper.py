"""`paceline sim paper`, on a paper of two runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.sim.papers import PAPERS
from paceline.sim.papers.claim import figure
from paceline.sim.papers.panel import Bars, Curves, bar, curve, distribution
from paceline.sim.papers.paper import Paper
from tests.commands.output import one_line, run_json

TWO_RUNS = Paper(
    name="two-runs",
    title="A paper of two runs",
    set_up="None.",
    assumed=(),
    seeds=3,
    quick="nothing is cut",
    runs=lambda quick: ("old", "new"),
    perform=lambda run, seed, quick: {"jct_s": (5.0 if run == "new" else 10.0) + seed},
    claims=lambda results: iter(
        [
            figure("new is shorter", "V", 50.0, results.lower("jct_s", "new", "old")),
            figure("new is much shorter", "V", 90.0, results.lower("jct_s", "new", "old"), "it is half as long"),
        ]
    ),
)


@pytest.fixture(autouse=True)
def two_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAPERS, "two-runs", TWO_RUNS)


@pytest.mark.parametrize(
    ("names", "says"), [(["adasrsf"], "no paper 'adasrsf'; expected one of ada-srsf"), ([], "which")]
)
def test_a_wrong_name_gets_one_line(names: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "paper", *names]) == 2
    assert says in one_line(capsys)


def test_the_list_has_every_paper(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = run_json(["sim", "paper", "--list"], capsys)
    assert [paper["name"] for paper in document["papers"]] == list(PAPERS)
    assert main(["sim", "paper", "--list"]) == 0
    assert "two-runs" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "seeds"), [([], 3), (["--quick"], 2), (["--quick", "--seeds", "4"], 4)])
def test_claims_as_json(options: list[str], seeds: int, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = run_json(["sim", "paper", "two-runs", *options, "--processes", "1"], capsys)
    assert (document["paper"], document["seeds"], document["quick"]) == ("two-runs", seeds, "--quick" in options)
    assert {"version", "commit", "machine", "wall_s"} <= document.keys()
    holds, holds_not = document["claims"]
    assert holds.keys() == {"claim", "section", "unit", "paper", "here", "spread", "holds", "why"}
    gains = [100 * 5 / (10 + seed) for seed in range(1, seeds + 1)]
    assert holds["spread"] == [pytest.approx(gains[-1]), pytest.approx(gains[0])]
    assert (holds["holds"], holds_not["holds"]) == (True, False)
    assert document["runs"]["new"]["jct_s"] == pytest.approx(5 + (1 + seeds) / 2)


def test_a_table_and_the_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "paper", "two-runs", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert "41.9 %" in out
    assert "does not hold: new is much shorter. it is half as long" in out


def test_runs_that_were_kept_are_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "rows.jsonl"
    command = ["sim", "paper", "two-runs", "--processes", "1", "--results", str(kept)]
    _, first = run_json([*command, "--seeds", "2"], capsys)
    assert len(kept.read_text().splitlines()) == 4
    done: list[int] = []

    def perform(run: str, seed: int, quick: bool) -> dict[str, float]:
        done.append(seed)
        return TWO_RUNS.perform(run, seed, quick)

    monkeypatch.setitem(PAPERS, "two-runs", replace(TWO_RUNS, perform=perform))
    _, again = run_json([*command, "--seeds", "2"], capsys)
    assert (again["claims"], again["cpu_s"]) == (first["claims"], first["cpu_s"])
    _, more = run_json([*command, "--seeds", "3"], capsys)
    assert done == [3, 3]
    assert more["claims"] == run_json(["sim", "paper", "two-runs", "--processes", "1"], capsys)[1]["claims"]


@pytest.mark.slow
def test_a_figure_of_bars_and_of_distributions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paper = replace(
        TWO_RUNS,
        perform=lambda run, seed, quick: {"jct_s": float(seed)} | distribution([1.0, 2.0, 3.0]),
        panels=lambda results: (
            Bars("JCT", "s", ("8",), {run: [bar(results, run, "jct_s")] for run in ("old", "new")}),
            Curves("iterations", "ms", {"old": curve(results, "old", 1e3)}),
        ),
    )
    monkeypatch.setitem(PAPERS, "two-runs", paper)
    drawn = tmp_path / "figure.png"
    _, document = run_json(["sim", "paper", "two-runs", "--processes", "1", "--figure", str(drawn)], capsys)
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert document["runs"]["old"] == {"jct_s": 2.0}  # a distribution is for the figure alone
    assert main(["sim", "paper", "two-runs", "--figure", str(tmp_path / "figure.doc")]) == 2
    assert "figure's name" in one_line(capsys)

"""`paceline sim paper`, on a paper of two runs."""

import pytest

from paceline.cli import main
from paceline.sim.papers import PAPERS
from paceline.sim.papers.claim import figure
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

"""The page of results: one file, nothing outside, every section, and what is missing by name."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench.experiments.experiment import Options
from bench.experiments.registry import EXPERIMENTS
from bench.report.page import LIMITS, page, read_result, read_results
from paceline import cli
from paceline.commands.provenance import provenance
from paceline.failure import Failure
from tests.bench.conftest import FakeRuns

pytestmark = pytest.mark.slow

VOID = {"meta", "br", "th", "td", "li"}  # those we do not always close


class Structure(HTMLParser):
    """Fails on tags that are closed in the wrong order; collects headings and what points outside."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src", "srcset", "data", "action"):
                self.references.append(str(value))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture
def results(tmp_path: Path, fake_runs: FakeRuns, fake_measurements: None) -> Path:
    for name, experiment in EXPERIMENTS.items():
        made = {"quick": False, "repeats": 2, "seed": 1, "controls": [], "wall_s": 1.0, "commits": ["abc1234"]}
        failed = {"failed_runs": ["<b>: stood still"]}
        result = experiment.run(Options(repeats=2))
        document = {"experiment": name, **made, **failed, **provenance(), "result": result}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    return tmp_path


def test_the_page_is_whole_and_stands_alone(results: Path) -> None:
    text = page(read_results(results))
    structure = Structure(text)
    assert structure.open == []
    assert structure.ids == list(EXPERIMENTS)
    assert all(reference.startswith("#") for reference in structure.references)
    for outside in ("http:", "https:", "url(", "@import", "<script", "<link"):
        assert outside not in text
    assert all(limit.split(":")[0] in text for limit in LIMITS)
    assert "abc1234" in text
    assert "&lt;b&gt;: stood still" in text
    assert "Not measured yet" not in text
    assert "A quick run" not in text


def test_the_paper_stands_beside_what_was_found(results: Path) -> None:
    text = page(read_results(results))
    for said in ("+22 %", "+14.2 %", "6.2 ms", "1.5 ms", "at least 15 % lower", "15 % of a core", "62 % slower"):
        assert said in text
    assert "4.0 ms (6 hosts, 1 switch)" in text


def test_what_is_missing_is_named_with_its_command(results: Path) -> None:
    (results / "mixes.json").unlink()
    (results / "loss.json").rename(results / "something-else.json")
    text = page(read_results(results))
    assert "<code>paceline bench paper mixes</code>" in text
    assert "<code>paceline bench paper loss</code>" in text
    assert "<code>paceline bench paper jct</code>" not in text
    Structure(text)


def test_the_command_writes_the_page(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = results / "new" / "report.html"
    assert cli.main(["bench", "report", "--results", str(results), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"out": str(out), "experiments": list(EXPERIMENTS), "missing": []}
    Structure(out.read_text(encoding="utf-8"))


def test_nothing_measured_is_a_page_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Structure(page({}))
    assert cli.main(["bench", "report", "--results", str(tmp_path / "none")]) == 2
    assert "paceline bench paper" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["result", "machine", "repeats", "commits"])
def test_a_result_of_another_shape_is_one_line(results: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = results / "mixes.json"
    document = json.loads(path.read_text())
    document[key] = {"measured": {}} if key == "result" else {"": 1}
    path.write_text(json.dumps(document))
    assert cli.main(["bench", "report", "--results", str(results), "--out", str(results / "page.html")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "mixes.json: no result of" in line


@pytest.mark.parametrize("content", ["", "{", "[1]", "{}", '{"experiment": "mixes"}'])
def test_a_broken_result_is_one_line(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mixes.json").write_text(content)
    assert cli.main(["bench", "report", "--results", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 2
    assert cli.main(["bench", "paper", "mixes", "--out", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all("mixes.json: no result" in line for line in lines)


def test_a_result_is_of_the_experiment_it_is_named_after(results: Path) -> None:
    for key in ("controls", "machine", "result"):
        document = json.loads((results / "mixes.json").read_text())
        del document[key]
        (results / "part.json").write_text(json.dumps(document | {"experiment": "part"}))
        with pytest.raises(Failure, match=r"part\.json: no result"):
            read_result(results / "part.json")
    (results / "alone.json").replace(results / "mixes.json")
    with pytest.raises(Failure, match=r"mixes\.json: no result"):
        read_results(results)

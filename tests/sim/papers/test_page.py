"""docs/papers.md is what the stored results say."""

import json
from pathlib import Path

import pytest

from paceline.sim.papers import PAPERS
from paceline.sim.papers.page import page

DOCS = Path(__file__).parents[3] / "docs"
RESULTS = DOCS / "results" / "papers"


def test_the_page_is_written_from_the_results() -> None:
    stored = [json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in PAPERS]
    assert (DOCS / "papers.md").read_text(encoding="utf-8") == page(stored), "run: scripts/papers --page"


@pytest.mark.parametrize("name", PAPERS)
def test_results_are_of_the_papers_present_set_up_and_claims(name: str) -> None:
    stored = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    paper = PAPERS[name]
    assert stored["seeds"] >= paper.seeds
    assert (stored["set_up"], stored["assumed"]) == (paper.set_up, list(paper.assumed)), "run: scripts/papers " + name
    assert list(stored["runs"]) == list(paper.runs(stored["quick"]))
    for claim in stored["claims"]:
        assert claim["why"] or claim["holds"], "a claim that does not hold says why"

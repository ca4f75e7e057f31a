"""Writes docs/papers.md from docs/results/papers/: the second half of scripts/papers."""

import json
from pathlib import Path

from paceline.sim.papers import PAPERS
from paceline.sim.papers.page import page

DOCS = Path(__file__).parents[1] / "docs"


def documents() -> list[dict[str, object]]:
    """Of the papers that have results, in the order of the list."""
    files = (DOCS / "results" / "papers" / f"{name}.json" for name in PAPERS)
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


if __name__ == "__main__":
    (DOCS / "papers.md").write_text(page(documents()), encoding="utf-8")

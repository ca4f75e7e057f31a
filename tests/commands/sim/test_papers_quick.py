"""Every paper's command, quick and with one seed: it ends, and has claims as the stored results have."""

import json
import math
from pathlib import Path

import pytest

from paceline.sim.papers import PAPERS
from tests.commands.output import run_json

RESULTS = Path(__file__).parents[3] / "docs/results/papers"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", PAPERS)
def test_a_quick_paper_has_its_claims(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, quick = run_json(["sim", "paper", name, "--quick", "--seeds", "1", "--processes", "2"], capsys)
    stored = json.loads((RESULTS / f"{name}.json").read_text())
    known = {claim["claim"] for claim in stored["claims"]}
    found = [claim["claim"] for claim in quick["claims"]]
    assert len(set(found)) == len(found) and known & set(found)  # some name their sizes, which are cut
    assert all(math.isfinite(claim["here"]) for claim in quick["claims"])
    assert any(claim["holds"] for claim in quick["claims"])

"""Titan's section V-B, cut to a few jobs."""

from dataclasses import replace

import pytest

from paceline.sim.papers import PAPERS, Cell, cells, perform, results, titan


@pytest.mark.slow
def test_claims_of_a_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(titan, "WORKLOAD", replace(titan.WORKLOAD, jobs=40))
    monkeypatch.setattr(titan, "MACHINES", 64)
    paper = PAPERS["titan"]
    wanted = cells(paper, 1, quick=True)
    found = results(wanted, [perform(cell) for cell in wanted])
    claims = {claim.claim: claim for claim in paper.claims(found)}
    assert len(claims) >= 21
    assert len(paper.panels(found)) == 4
    # Pieces left for jobs that fill them mean more machines, whatever else is cut.
    assert claims["Titan uses fewer machines than ElasticFlow (exact fit or idle machines)"].here > 0.0
    assert perform(Cell("titan", "titan/100g", 1, True)) == found.rows["titan/100g"][0]

"""Dally's section VI, cut to a few jobs."""

from dataclasses import replace

import pytest

from paceline.sim.papers import PAPERS, Cell, cells, dally, perform, results


def test_the_whole_and_the_cut_have_what_claims_need() -> None:
    whole, cut = dally.runs(False), dally.runs(True)
    assert len(whole) == len(set(whole)) == 4 * 8 + 2 * 4 + 5 + 2 * 4 + 3 + 2 * 6 + 2
    assert len(cut) == len(set(cut)) < len(whole)
    assert dally.workload("batch", False).jobs == 500


@pytest.mark.slow
def test_claims_of_a_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which hold says nothing with so few jobs; that every one is there does."""
    whole = dally.workload
    monkeypatch.setattr(dally, "workload", lambda arrivals, quick: _few_jobs(whole(arrivals, quick)))
    paper = PAPERS["dally"]
    wanted = cells(paper, 1, quick=True)
    found = results(wanted, [perform(cell) for cell in wanted])
    claims = list(paper.claims(found))
    assert len(claims) == 62 + 7
    assert len(paper.panels(found)) == 3
    assert all(claim.why for claim in claims)
    assert perform(Cell("dally", "batch/2/dally", 1, True)) == found.rows["batch/2/dally"][0]


def _few_jobs(workload: dally.Workload) -> dally.Workload:
    return replace(workload, jobs=24, gpu_mix=((8, 1), (16, 1)), median_s=20 * dally.HOUR_S)

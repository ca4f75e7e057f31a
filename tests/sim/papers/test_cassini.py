"""CASSINI's section 5, cut to a few jobs."""

import pytest

from paceline.sim.papers import PAPERS, Cell, cassini_runs, cells, perform, results


def test_jobs_are_as_long_as_the_paper_says() -> None:
    for trace in cassini_runs.TRACES:
        jobs = cassini_runs.draw(trace, 1, False)
        assert len(jobs) == 24
        assert all(200 <= job.iterations <= 1000 and 1 <= job.gpus <= 12 for job in jobs)
        assert [job.arrival_s for job in jobs] == sorted(job.arrival_s for job in jobs)


@pytest.mark.slow
def test_claims_of_a_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassini_runs, "QUICK_JOBS", 6)
    monkeypatch.setattr(cassini_runs, "CUT", 10)
    paper = PAPERS["cassini"]
    wanted = cells(paper, 1, quick=True)
    found = results(wanted, [perform(cell) for cell in wanted])
    claims = {claim.claim: claim for claim in paper.claims(found)}
    assert len(claims) == 27 + 2
    assert all(claim.why for claim in claims.values())
    # No schedule beats each job alone, and jobs that fit between each other gain by it.
    assert found.mean("dynamic/lwf/dedicated", "mean_s") <= 1.01 * found.mean("dynamic/themis/fair", "mean_s")
    assert claims["Shifted jobs are below unshifted ones in mean iteration, 3 like jobs on one link (ours)"].here > 10.0
    assert perform(Cell("cassini", "dynamic/themis/fair", 1, True)) == found.rows["dynamic/themis/fair"][0]
    assert len(paper.panels(found)) == 3

"""CASSINI's section 5, cut to a few jobs."""

import pytest

from paceline.sim.papers import PAPERS, Cell, cassini, cells, perform, results

pytestmark = pytest.mark.slow


def test_jobs_are_as_long_as_the_paper_says() -> None:
    for trace in (*cassini.TRACES, "pairs"):
        jobs = cassini.draw(trace, 1, False)
        assert len(jobs) == 24
        assert all(200 <= job.iterations <= 1000 and 1 <= job.gpus <= 12 for job in jobs)
        assert [job.arrival_s for job in jobs] == sorted(job.arrival_s for job in jobs)


def test_claims_of_a_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassini, "QUICK_JOBS", 6)
    monkeypatch.setattr(cassini, "CUT", 40)
    paper = PAPERS["cassini"]
    wanted = cells(paper, 1, quick=True)
    found = results(wanted, [perform(cell) for cell in wanted])
    claims = list(paper.claims(found))
    assert len(claims) == len({claim.claim for claim in claims}) == 16
    assert all(claim.why for claim in claims)
    # No schedule beats each job alone.
    assert found.mean("dynamic/lwf/dedicated", "mean_s") <= 1.01 * found.mean("dynamic/lwf/fair", "mean_s")
    assert perform(Cell("cassini", "dynamic/lwf/fair", 1, True)) == found.rows["dynamic/lwf/fair"][0]

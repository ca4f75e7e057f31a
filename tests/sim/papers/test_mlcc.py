"""MLCC's section VII, cut to a few jobs."""

import pytest

from paceline.flowcore.model.scenario import Pattern
from paceline.sim.papers import PAPERS, Cell, cells, mlcc, perform, results
from paceline.sim.trace.sampled import spec_of


@pytest.mark.parametrize(("share", "least", "most"), [("0", 0, 0), ("0.5", 30, 70), ("1", 100, 100)])
def test_jobs_have_the_shapes_of_section_vi(share: str, least: int, most: int) -> None:
    jobs = mlcc.draw(share, "0.7", 100, 4, 1)
    servers = [job for job in jobs if job.pattern is Pattern.PS]
    assert least <= len(servers) <= most
    assert all((job.gpus, job.servers) == (4, 2) for job in servers)
    assert all((job.gpus, job.servers) == (3, 0) for job in jobs if job not in servers)
    closer = mlcc.draw(share, "0.9", 100, 4, 1)
    assert [job.iterations for job in closer] == [job.iterations for job in jobs]
    assert closer[-1].arrival_s == pytest.approx(jobs[-1].arrival_s * 7 / 9)


def test_servers_are_on_gpus_of_their_own() -> None:
    [job] = mlcc.draw("1", "0.7", 1, 4, 1)
    apart = spec_of(job, {"a": 1, "b": 1, "c": 1, "d": 1}, 0.0)
    assert (apart.servers, apart.workers) == (("a", "b"), ("c", "d"))
    beside = spec_of(job, {"a": 3, "b": 1}, 0.0)
    assert (beside.servers, beside.workers) == (("a",), ("a", "b"))


@pytest.mark.slow
def test_claims_of_a_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlcc, "QUICK_JOBS", 4)
    monkeypatch.setattr(mlcc, "QUICK_FEW", 1)
    monkeypatch.setattr(mlcc, "ITERATIONS", (2, 3))
    paper = PAPERS["mlcc"]
    wanted = cells(paper, 1, quick=True)
    found = results(wanted, [perform(cell) for cell in wanted])
    claims = list(paper.claims(found))
    assert len(claims) == len({claim.claim for claim in claims}) == 3 * 5 + 3 * 6 + 2 + 5
    assert all(claim.why for claim in claims)
    assert perform(Cell("mlcc", "1/0.7/fair", 1, True)) == found.rows["1/0.7/fair"][0]

"""MLCC's section VII, cut to a few jobs."""

from dataclasses import replace

import pytest

from paceline.flowcore.model.scenario import Pattern
from paceline.sim.papers import PAPERS, Cell, cells, mlcc, mlcc_claims, perform, results
from paceline.sim.papers.results import Results
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


def test_moved_jobs_are_the_same_a_little_later() -> None:
    jobs = mlcc.draw("0.5", "0.9", 100, 4, 1)
    moved = {job.name: job for job in mlcc.moved(jobs, 1, 1)}
    assert all(0.0 <= moved[job.name].arrival_s - job.arrival_s <= mlcc.MOVED_S for job in jobs)
    assert [replace(moved[job.name], arrival_s=job.arrival_s) for job in jobs] == jobs
    assert mlcc.moved(jobs, 1, 1) == mlcc.moved(jobs, 1, 1) != mlcc.moved(jobs, 2, 1)


def test_a_trace_that_is_above_fair_is_looked_at_move_by_move() -> None:
    """Of two seeds the second is above; moved, it is above once more and below twice."""
    rows = {
        f"{share}/{load}/{policy}": [{"mean_jct_s": 100.0}, {"mean_jct_s": 100.0}]
        for share in mlcc.SHARES
        for load in ("0.7", "0.7~1", "0.7~2", "0.7~3")
        for policy in ("paceline", "fair")
    }
    for load, jct_s in (("0.7", 110.0), ("0.7~1", 112.0), ("0.7~2", 91.0), ("0.7~3", 91.0)):
        rows[f"1/{load}/paceline"][1]["mean_jct_s"] = jct_s
    overall, single = mlcc_claims.moved_claims(mlcc_claims.Runs(Results(rows)))
    assert (single.here, single.spread) == (pytest.approx(2.0), pytest.approx((-12.0, 9.0)))
    assert single.holds
    assert "seed 2" in single.claim and "PS share 1" in single.claim
    assert overall.holds and overall.here == 0.0
    for load in ("0.7~2", "0.7~3"):
        rows[f"1/{load}/paceline"][1]["mean_jct_s"] = 112.0
    overall, single = mlcc_claims.moved_claims(mlcc_claims.Runs(Results(rows)))
    assert not overall.holds and not single.holds
    assert "1 of 6 traces are above in the mean, 1 of them with all" in overall.why


@pytest.mark.slow
def test_claims_of_a_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlcc, "QUICK_JOBS", 4)
    monkeypatch.setattr(mlcc, "QUICK_FEW", 1)
    monkeypatch.setattr(mlcc, "ITERATIONS", (2, 3))
    paper = PAPERS["mlcc"]
    wanted = cells(paper, 1, quick=True)
    found = results(wanted, [perform(cell) for cell in wanted])
    claims = list(paper.claims(found))
    assert len({claim.claim for claim in claims}) == len(claims)
    single = [claim for claim in claims if "where nothing is moved" in claim.claim]
    assert len(claims) - len(single) == 3 * 5 + 3 * 6 + 5 + 2 + 1
    assert all(claim.why for claim in claims)
    assert perform(Cell("mlcc", "1/0.7/fair", 1, True)) == found.rows["1/0.7/fair"][0]

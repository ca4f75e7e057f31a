"""Section V of Ada-SRSF, cut to a few iterations."""

import pytest

from paceline.sim.papers import PAPERS, Cell, ada_srsf, cells, perform, results


def test_the_jobs_are_those_of_section_v() -> None:
    jobs = ada_srsf.draw(1)
    assert len(jobs) == 160
    assert sum(job.gpus for job in jobs) == 80 + 28 + 104 + 240 + 128 + 64
    assert all(1000 <= job.left <= 6000 for job in jobs)
    assert max(job.arrival_s for job in jobs) < 1200
    assert (
        [job.left for job in ada_srsf.draw(1)] == [job.left for job in jobs] != [job.left for job in ada_srsf.draw(2)]
    )


@pytest.mark.slow
def test_runs_depend_on_the_seed_alone_and_carry_every_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ada_srsf, "QUICK", 0.001)
    paper = PAPERS["ada-srsf"]
    wanted = cells(paper, 1, quick=True)
    found = results(wanted, [perform(cell) for cell in wanted])
    claims = list(paper.claims(found))
    assert len(claims) == 24
    assert len(paper.panels(found)) == 2
    assert perform(Cell("ada-srsf", "lwf/srsf1", 1, True)) == found.rows["lwf/srsf1"][0]
    # Credit makes exchanges faster, whatever else is cut.
    assert found.mean("lwf/adadual-credited", "mean_jct_s") < found.mean("lwf/adadual", "mean_jct_s")

"""The suite of jobs on a GPU: its cases, and what is said of their runs. (Fake runs; see tests/bench/conftest.py.)"""

import pytest

from bench.experiments.acceptance import gpu_jobs
from bench.experiments.acceptance.gpu_job_cases import JOBS, SUITE
from bench.experiments.acceptance.gpu_jobs import EXPERIMENT
from bench.experiments.acceptance.job_suite import Pair
from bench.experiments.experiment import COMPARED, Options
from bench.jobs.cases import Share, ShareMade
from bench.jobs.run_store import RunStore
from bench.workload.choice import ON_GPU, check_workload
from tests.bench.conftest import FACTORS, FakeRuns


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask takes seconds."""
    monkeypatch.setattr(gpu_jobs, "gpu", lambda: None)


def test_the_limits_are_those_that_were_promised() -> None:
    limits = {pair.name: (pair.limit_percent, pair.limit_slowdown) for pair in SUITE.pairs.values()}
    assert limits == {
        "identical-layers-1g": (None, 1.05),
        "identical-layers-5g": (None, 1.05),
        "identical-layers-10g": (None, 1.05),
        "unlike-1g": (None, 1.12),
        "launched-stream-1g": (None, 1.06),
        "launched-ahead-1g": (None, 1.06),
        "unmarked-jax-1g": (None, 1.06),
        "models-resnet50-5g": (-5.0, None),
        "models-gpt2-small-10g": (-5.0, None),
        "models-fsdp-10g": (1.0, None),
    }


@pytest.mark.parametrize("pair", SUITE.pairs.values(), ids=SUITE.pairs)
def test_a_pair_can_be_run(pair: Pair) -> None:
    scenario = pair.scenario(SUITE.duration_s)
    check_workload(scenario.jobs, pair.workload)
    assert all(job.workload in ON_GPU for job in pair.jobs)
    assert {link.capacity_bps for link in scenario.topology.links.values()} == {pair.jobs[0].link_gbps * 1e9}


def test_communicating_is_a_third_to_two_thirds_of_an_iteration() -> None:
    for job in JOBS.values():
        assert 0.3 <= job.link_s / (job.link_s + job.compute_s) <= 0.6, job.name
        assert SUITE.duration_s / (job.link_s + job.compute_s) > 7, "too few iterations"


def test_fake_runs_become_rows_and_checks(fake_runs: FakeRuns) -> None:
    result = EXPERIMENT.run(Options(repeats=3, controls=COMPARED))
    assert [row["case"] for row in result["rows"]] == [*SUITE.pairs]
    assert [row["name"] for row in result["alone"]] == [*JOBS]
    assert len(fake_runs.made) == 3 * (10 * 4 + 11 * 2)  # a twin is not measured alone again
    kept = {check["claim"]: check["passed"] for check in result["checks"]}
    assert kept["models-resnet50-5g: at least 5 % below the best TCP"]
    assert kept["models-fsdp-10g: at most 1 % above the best TCP"]
    assert not kept["identical-layers-1g: late slowdown at most 1.05"]  # 1.3 ÷ 1.2
    assert EXPERIMENT.present(result)


def test_a_limit_on_the_slowdown_can_be_kept(fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = ("identical-layers-1g", "launched-stream-1g")
    monkeypatch.setitem(FACTORS, "paceline", 1.266)  # ÷ 1.2 = 1.055
    rows = EXPERIMENT.run(Options(controls=COMPARED, cases=cases))["rows"]
    assert [row["holds"] for row in rows] == [False, True]


def test_processes_share_the_runs_at_one_gigabit_and_one_makes_the_rest(fake_runs: FakeRuns) -> None:
    store = RunStore()
    for number in range(3):
        with pytest.raises(ShareMade):
            EXPERIMENT.run(Options(repeats=3, controls=COMPARED, store=store, share=Share(number, 3)))
    assert len(fake_runs.made) == 3 * (5 * 4 + 6 * 2)
    result = EXPERIMENT.run(Options(repeats=3, controls=COMPARED, store=store))
    assert len(fake_runs.made) == 3 * (10 * 4 + 11 * 2)
    assert len(result["rows"]) == len(SUITE.pairs)

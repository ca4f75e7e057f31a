"""The arithmetic of the report."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from bench.jobs.cases import Measurement
from bench.jobs.control import DaemonCpu
from bench.jobs.report import Estimate, document
from bench.jobs.run import Conditions, JobsRun
from paceline.flowcore.model.scenario import parse_scenario
from paceline.sim.capacity_bound import capacity_bound
from paceline.sim.jobs import TrainingJob
from paceline.sim.run import job_result, whole_iteration_s
from paceline.sim.scenario_file import read_scenario
from tests.bench.conftest import SMALL

pytestmark = pytest.mark.root


def test_the_report_compares_with_alone_and_with_the_bound(small: Path) -> None:
    scenario = read_scenario(small)
    second = 1_000_000_000

    def run(iteration_s: float) -> JobsRun:
        jobs = tuple(TrainingJob(spec, 1) for spec in scenario.jobs)
        for job in jobs:  # a warm-up twice as long
            ends = [2 * iteration_s * n for n in (1, 2, 3)]
            ends += [ends[-1] + iteration_s * n for n in (1, 2, 3)]
            job.iteration_ends_ns = [round(end * second) for end in ends]
        return JobsRun("reno", jobs, 20 * second, {}, (), DaemonCpu(3.0, 1.0))

    conditions = Conditions("synthetic", 1)
    bound = capacity_bound([{"l": 0.75}, {"l": 0.75}])
    measured = Measurement(scenario, conditions, {"a": 1.0, "b": 1.0}, bound, {"reno": [run(1.5), run(1.7)]})
    report = document(measured, 1.0)
    (control,) = report["controls"]
    assert control["mean_slowdown"] == pytest.approx(1.6)
    assert control["whole_run_slowdown"] == pytest.approx(2.4)
    assert control["ratio_to_bound"] == pytest.approx(1.6 / 1.5)
    low, high = control["mean_slowdown_95"]
    assert (high - low) / 2 == pytest.approx(12.706 * 0.1)
    assert (control["host_cpu_percent"], control["switch_cpu_percent"]) == (3.0, 1.0)
    job = control["jobs"][0]
    assert job["mean_iteration_s"] == pytest.approx(1.6)
    assert job["warm_up_iteration_s"] == pytest.approx(3.2)
    assert job["jct_s"] == pytest.approx(fmean([13.5, 15.3]))
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize(
    ("ends_s", "whole_s"),
    [
        ([1.0], 20 / 2),  # one iteration, and then no more
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (6 + 14) / 7),  # the seventh got stuck
        ([3.0 * n for n in range(1, 7)], 3.0),
    ],
)
def test_a_job_that_starves_is_slow_over_the_whole_run(ends_s: list[float], whole_s: float) -> None:
    spec = replace(parse_scenario(SMALL, "small.toml").jobs[0], iterations=None)
    job = TrainingJob(spec, 1)
    job.iteration_ends_ns = [round(1e9 * end_s) for end_s in ends_s]
    assert whole_iteration_s(job, 20_000_000_000) == pytest.approx(whole_s)


@pytest.mark.parametrize("ends_s", [[], [1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], ids=["none", "one", "then stuck"])
def test_the_longest_iteration_is_that_of_the_simulator(small: Path, ends_s: list[float]) -> None:
    scenario, lasted_ns = read_scenario(small), 20_000_000_000
    jobs = tuple(TrainingJob(replace(spec, iterations=None), 1) for spec in scenario.jobs)
    for job in jobs:
        job.iteration_ends_ns = [round(1e9 * end_s) for end_s in ends_s]
    run = JobsRun("reno", jobs, lasted_ns, {}, (), DaemonCpu())
    bound = capacity_bound([{"l": 0.75}])
    measured = Measurement(scenario, Conditions("synthetic", 1), {"a": 1.0, "b": 1.0}, bound, {"reno": [run]})
    (control,) = document(measured, 1.0)["controls"]
    p99_s = job_result(jobs[0], 1.0, lasted_ns).p99_iteration_s
    assert [job["p99_iteration_s"] for job in control["jobs"]] == pytest.approx([p99_s] * 2)
    assert p99_s == pytest.approx({0: 20.0, 1: 19.0, 6: 14.0}[len(ends_s)])


def test_one_value_has_no_interval() -> None:
    assert Estimate.of([1.5]).interval() is None
    assert str(Estimate.of([1.5])) == "1.500"
    assert Estimate.of([1.0] * 40).interval() == [1.0, 1.0]

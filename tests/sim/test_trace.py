"""Traces through a cluster: what is kept, what skipping costs, and that numbers of flows can be used again."""

from math import inf

import pytest

from flowcore.policy import POLICIES
from flowcore.scenario import Pattern
from sim.results import row
from sim.trace import TraceOptions, TraceRun
from sim.traces.job import TraceJob
from sim.workload import build_topology


def job(
    name: str, gpus: int, iterations: int, arrival_s: float = 0.0, pattern: Pattern = Pattern.ALLREDUCE
) -> TraceJob:
    return TraceJob(name, arrival_s, gpus, "vgg16", 100.0, 0.2, iterations, pattern)


def simulated(jobs: list[TraceJob], **options: object) -> TraceRun:
    chosen = TraceOptions(servers=6, gpus_per_server=2, **options)  # type: ignore[arg-type]
    run = TraceRun(build_topology("section-vii", 6), chosen)
    run.run(jobs)
    return run


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_jobs_come_and_go_and_flows_are_numbered_anew(policy: str) -> None:
    """Rings leave and parameter servers, some of whose flows stay within a host, take over their numbers."""
    jobs = [job(f"r{n}", 4, 4 + n, arrival_s=0.3 * n) for n in range(4)]
    jobs += [job(f"p{n}", 4, 6, arrival_s=2.0 + 0.5 * n, pattern=Pattern.PS) for n in range(4)]
    run = simulated(jobs, policy=policy, sample_s=inf)
    assert all(one.end_s < inf for one in run.runs.values())
    assert run.cluster.used_gpus == run.cluster.used_servers == 0


def test_a_job_on_one_server_takes_its_time_and_one_that_does_not_fit_waits() -> None:
    run = simulated([job("one", 1, 10), job("all", 12, 3, 0.1), job("next", 12, 3, 0.2)], placement="first-fit")
    assert run.runs["one"].end_s == pytest.approx(2.0)
    assert run.runs["all"].start_s == pytest.approx(2.0)
    assert run.runs["next"].start_s == pytest.approx(run.runs["all"].end_s, abs=0.01)  # within a step or two


def test_skipping_ahead_changes_little_and_saves_much() -> None:
    jobs = [job("a", 6, 600), job("b", 6, 500, 1.0)]
    exact, skipped = simulated(jobs, sample_s=inf), simulated(jobs, sample_s=10.0)
    for name in ("a", "b"):
        assert skipped.runs[name].end_s == pytest.approx(exact.runs[name].end_s, rel=0.05)
    assert skipped.engine.fast.steps < exact.engine.fast.steps / 3


def test_the_row_has_what_was_promised() -> None:
    found = row(simulated([job("a", 4, 5), job("b", 1, 5)]), 1.0)
    assert found["jobs_finished"] == 2
    assert 0.0 < found["gpu_utilization"] <= 1.0
    for key in ("mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "makespan_s", "machines_used_mean"):
        assert found[key] > 0.0
    assert {"fragmentation_mean", "wall_s", "simulated_s"} <= found.keys()

"""The analytic engine: progress, contention, and agreement with the engine that moves flows."""

import pytest

from paceline.cluster.exchange import Exchange
from paceline.cluster.state import Workers
from paceline.sim.trace.analytic import AnalyticEngine
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.workload import build_topology


def job(name: str, gpus: int = 2, iterations: int = 100, compute_s: float = 1.0) -> TraceJob:
    return TraceJob(name, 0.0, gpus, "vgg16", 100.0, compute_s, iterations)


def engine(busy_s: float, ended: list[str]) -> AnalyticEngine:
    """Every job computes for a second and then needs one link for busy_s."""

    def exchange(job: TraceJob, workers: Workers) -> Exchange:
        return Exchange(busy_s, {"link": busy_s})

    return AnalyticEngine(exchange, ended.append)


def test_alone_an_iteration_is_computing_and_exchange() -> None:
    ended: list[str] = []
    simulated = engine(0.5, ended)
    simulated.start(job("a"), 100, {"h0": 1, "h1": 1})
    simulated.advance(30.0)
    assert (simulated.now_s, simulated.iterations_done("a"), ended) == (30.0, 20, [])
    simulated.advance(1e9)
    assert (simulated.now_s, ended) == (pytest.approx(150.0), ["a"])


def test_jobs_that_overload_a_link_are_slowed_alike_and_just_enough() -> None:
    """Each needs 3/4 of the link: together 1.5, so both take 1.5 times as long; alone again, none."""
    ended: list[str] = []
    simulated = engine(3.0, ended)
    for name in ("a", "b"):
        simulated.start(job(name), 100, {"h0": 1, "h1": 1})
    simulated.advance(60.0)
    assert simulated.iterations_done("a") == simulated.iterations_done("b") == 10
    assert simulated.stop("b") == 10
    simulated.advance(1e9)
    assert simulated.now_s == pytest.approx(60.0 + 90 * 4.0)


def test_jobs_that_fit_behind_each_other_are_not_slowed() -> None:
    ended: list[str] = []
    simulated = engine(1.0, ended)
    for name in ("a", "b"):
        simulated.start(job(name), 10, {"h0": 1, "h1": 1})
    simulated.advance(1e9)
    simulated.advance(1e9)
    assert (simulated.now_s, sorted(ended)) == (pytest.approx(20.0), ["a", "b"])


def test_a_partial_iteration_is_lost() -> None:
    simulated = engine(0.0, [])
    simulated.start(job("a"), 100, {"h0": 2})
    simulated.advance(12.9)
    assert simulated.stop("a") == 12


@pytest.mark.parametrize("gpus", [4, 8])
def test_both_engines_agree_on_a_job_alone(gpus: int) -> None:
    """A ring over servers of one GPU, on which the two have the same idea of a ring."""
    ends_s = []
    for kind in ("array", "analytic"):
        options = TraceOptions(
            servers=10, gpus_per_server=1, placement="first-fit", engine=kind, jitter=0.0, step_ms=1.0, policy="fair"
        )
        run = TraceRun(build_topology("section-vii", 10), options)
        run.run([job("a", gpus, iterations=30, compute_s=0.2)])
        ends_s.append(run.records["a"].end_s)
    assert ends_s[1] == pytest.approx(ends_s[0], rel=0.05)

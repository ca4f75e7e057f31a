"""A run in parts: the same jobs do as much as in one process, and a job that ends undoes the division."""

from math import inf

import pytest

from paceline.flowcore.model.scenario import Pattern
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.parts import Work, components, divisible, run_in_processes, run_part
from paceline.sim.trace.profiles import PROFILES
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.sampled import SampledEngine
from paceline.sim.trace.workload import build_topology

pytestmark = pytest.mark.slow

OPTIONS = TraceOptions(servers=20, gpus_per_server=2, placement="first-fit", sample_s=inf, until_s=8.0, step_ms=1.0)


def work(iterations: int, **where: int) -> Work:
    """Every second job ends in the middle of a server, where the next one begins."""
    jobs = [
        TraceJob(f"j{n}", 0.1 * n, 3 + n % 2, "vgg16", 100.0, 0.2, iterations, Pattern.ALLREDUCE) for n in range(10)
    ]
    return Work(build_topology("section-vii", OPTIONS.servers), OPTIONS, PROFILES, jobs, 2, **where)


def iterations_of(run: TraceRun) -> dict[str, int]:
    assert isinstance(run.engine, SampledEngine)
    return run.engine.iterations


def test_processes_together_do_what_one_does() -> None:
    whole = TraceRun(work(1000).topology, OPTIONS)
    whole.run(work(1000).jobs)
    divided = run_in_processes(work(1000))
    found, expected = iterations_of(divided), iterations_of(whole)
    assert found.keys() == expected.keys()
    assert all(abs(found[name] - expected[name]) <= 1 for name in expected)
    assert isinstance(whole.engine, SampledEngine)
    assert isinstance(divided.engine, SampledEngine)
    assert len(components(whole.engine.array)) > 1
    assert len(divided.engine.array.jobs) < len(expected)  # the others were elsewhere
    carried = [engine.array.network.carried_bytes().sum() for engine in (divided.engine, whole.engine)]
    assert carried[0] == pytest.approx(carried[1], rel=0.01)


def test_a_job_that_ends_undoes_the_division() -> None:
    """Its GPUs would be free for jobs of any part."""
    assert run_part(work(12)) is None
    run = run_in_processes(work(12))
    assert all(record.end_s < inf for record in run.records.values())


def test_only_undisturbed_jobs_can_be_divided() -> None:
    assert divisible(OPTIONS, preempts=False)
    assert not divisible(OPTIONS, preempts=True)
    assert not divisible(TraceOptions(servers=20, policy="fair+cassini", sample_s=inf, until_s=8.0), preempts=False)
    assert not divisible(TraceOptions(servers=20), preempts=False)

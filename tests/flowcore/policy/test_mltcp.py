"""mltcp as its paper has it (HotNets 2024), in both engines."""

from itertools import pairwise

import pytest

from paceline.flowcore.allocation.aggressiveness import PAPER, PUBLISHED_CODE, Aggressiveness, piece_bytes
from paceline.flowcore.model.scenario import CrossTraffic, JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.sim.array.engine import run_scenario
from paceline.sim.reference.engine import Simulation

ALONE_S = 0.4  # 0.2 s of computing, 0.2 s of sending
ITERATIONS = 12


def ring(name: str, jitter: float = 0.03, iterations: int | None = ITERATIONS) -> JobSpec:
    return JobSpec(name, Pattern.ALLREDUCE, ("h0", "h1"), (), 25.0, 0.2, iterations, 0.0, jitter)


def scenario(*jobs: JobSpec, cross_traffic: tuple[CrossTraffic, ...] = ()) -> Scenario:
    return Scenario("two", 1, None, SlotsSpec(), star(2, 1.0), jobs, cross_traffic)


def iterations_s(engine: str, policy: str, seed: int = 1) -> list[list[float]]:
    two = scenario(ring("a"), ring("b"))
    if engine == "array":
        jobs = run_scenario(two, policy, seed)[1]
    else:
        simulation = Simulation(two, policy, seed)
        simulation.run()
        jobs = list(simulation.jobs.values())
    return [[(end - begin) / 1e9 for begin, end in pairwise([0, *job.iteration_ends_ns])] for job in jobs]


@pytest.mark.parametrize("line", [PAPER, PUBLISHED_CODE])
def test_aggressiveness_grows_from_the_intercept_with_what_was_sent(line: Aggressiveness) -> None:
    assert (line.weight(0.0), line.weight(1.0)) == (line.intercept, line.slope + line.intercept)
    assert piece_bytes(1e9) == 1e9 / 16
    assert piece_bytes(10.0) == 1500.0


@pytest.mark.parametrize("engine", ["reference", "array"])
@pytest.mark.parametrize("policy", ["mltcp", "mltcp-4"])
@pytest.mark.parametrize("seed", [1, 2])
def test_two_identical_jobs_come_to_take_turns_step_by_step(engine: str, policy: str, seed: int) -> None:
    """Abstract: flows "eventually converge into a schedule that reduces network contention", with "a step taken at
    every training iteration". TCP lets the same two jobs collide for ever."""
    for times_s in iterations_s(engine, policy, seed):
        assert max(times_s[:2]) > 1.2 * ALONE_S  # at first they collide
        assert max(times_s[6:]) < 1.05 * ALONE_S
    for times_s in iterations_s(engine, "fair", seed):
        assert min(times_s[6:]) > 1.3 * ALONE_S


def test_both_engines_agree_to_the_microsecond() -> None:
    for one, other in zip(iterations_s("reference", "mltcp"), iterations_s("array", "mltcp"), strict=True):
        assert one == pytest.approx(other, abs=2e-5)


def test_jobs_in_step_stay_in_step() -> None:
    """Nothing tells apart two jobs that send the same at the same time."""
    simulation = Simulation(scenario(ring("a", jitter=0.0), ring("b", jitter=0.0)), "mltcp", 1)
    simulation.run()
    one, other = (job.iteration_ends_ns for job in simulation.jobs.values())
    assert one == other
    assert one[-1] / 1e9 == pytest.approx(ITERATIONS * 0.6, rel=1e-3)


@pytest.mark.parametrize("engine", ["reference", "array"])
def test_cross_traffic_is_plain_tcp(engine: str) -> None:
    """Beside a flow of weight 1, a burst takes as long as F's inverse integrates to: 1 + ∫ dr/F(r)."""
    line = PAPER
    always = CrossTraffic("h0", "h1", 10.0, (10.0, 10.0), 10.0)
    beside = scenario(ring("a", jitter=0.0, iterations=1), cross_traffic=(always,))
    if engine == "array":
        ends_ns = run_scenario(beside, "mltcp", 1)[1][0].iteration_ends_ns
    else:
        simulation = Simulation(beside, "mltcp", 1)
        simulation.run()
        ends_ns = simulation.jobs["a"].iteration_ends_ns
    steps = 1000
    inverse = sum(1.0 / line.weight((step + 0.5) / steps) for step in range(steps)) / steps
    assert ends_ns[0] / 1e9 == pytest.approx(0.2 + 0.2 * (1.0 + inverse), rel=0.02)

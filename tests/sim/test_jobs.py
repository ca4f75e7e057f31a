"""Training jobs: compute, exchange, begin again."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.flowcore.model.patterns import Role
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import Topology, star, tree
from paceline.flowcore.policy import POLICIES
from paceline.sim.jobs import SHORTEST_COMPUTE, TrainingJob
from paceline.sim.reference.engine import Simulation

MS = 1_000_000


def ring(*workers: str, model_mb: float = 25.0, compute_s: float = 0.2, jitter: float = 0.0) -> JobSpec:
    return JobSpec("ring", Pattern.ALLREDUCE, workers, (), model_mb, compute_s, 10, 0.0, jitter)


def parameter_server(workers: tuple[str, ...], servers: tuple[str, ...], model_mb: float = 12.5) -> JobSpec:
    return JobSpec("ps", Pattern.PS, workers, servers, model_mb, 0.2, 10, 0.0, 0.0)


def simulate(job: JobSpec, policy: str = "fair", seed: int = 1, on: Topology | None = None) -> TrainingJob:
    scenario = Scenario("alone", 1, None, SlotsSpec(), on or star(4, 1.0), (job,), ())
    simulation = Simulation(scenario, policy, seed)
    simulation.run()
    return simulation.jobs[job.name]


def iterations_s(job: TrainingJob) -> list[float]:
    ends = [0, *job.iteration_ends_ns]
    return [(end - start) / 1e9 for start, end in pairwise(ends)]


# ---- Alone, an iteration takes c + v ----


@pytest.mark.parametrize(
    ("job", "exchange_s"),
    [
        (ring("h0", "h1"), 0.2),  # each sends 2(n−1)/n of 25 MB
        (ring("h0", "h1", "h2", "h3"), 0.3),
        (ring("h0", "h1", model_mb=50.0), 0.4),
        (parameter_server(("h0", "h1"), ("h2",)), 0.2),  # two pushes into one server, pulls in step with them
        (parameter_server(("h0", "h1", "h2"), ("h3",)), 0.3),
        (parameter_server(("h0", "h1"), ("h2", "h3")), 0.1),  # half of the model to each server
        (parameter_server(("h0", "h1"), ("h0",)), 0.1),  # half of the traffic stays inside the host
    ],
)
def test_alone_an_iteration_is_compute_plus_exchange(job: JobSpec, exchange_s: float) -> None:
    """To a microsecond: a flow that has caught up may end a few packets after what feeds it."""
    times_s = iterations_s(simulate(job))
    assert times_s == pytest.approx([0.2 + exchange_s] * 10, abs=1e-6)


@pytest.mark.parametrize("policy", [name for name in POLICIES if not name.startswith("mlcc")])
def test_alone_no_policy_costs_more_than_the_first_round_trips(policy: str) -> None:
    """Work conservation: a job that has the links to itself is not held back, mlcc's slots aside."""
    times_s = iterations_s(simulate(ring("h0", "h1", "h2"), policy))
    assert times_s == pytest.approx([0.2 + 25e6 * 4 / 3 * 8 / 1e9] * 10, rel=0.002)


def test_the_slowest_link_of_a_tree_sets_the_pace() -> None:
    crossing = simulate(ring("h0", "h4"), on=tree(2, 2, 2, (1.0, 1.0, 0.25)))
    assert iterations_s(crossing) == pytest.approx([0.2 + 0.8] * 10, abs=1e-6)


def test_a_model_without_bytes_to_speak_of_is_all_compute() -> None:
    assert iterations_s(simulate(ring("h0", "h1", model_mb=1e-3))) == pytest.approx([0.2] * 10, rel=1e-3)


# ---- Compute times ----


@given(st.integers(0, 1000), st.sampled_from(sorted(POLICIES)))
@settings(max_examples=10)
def test_compute_times_do_not_depend_on_the_policy(seed: int, policy: str) -> None:
    job = ring("h0", "h1", jitter=0.1)
    drawn = [TrainingJob(job, seed) for _ in range(2)]
    for host in job.workers:
        times = [[one.compute_ns(one.workers[host]) for _ in range(20)] for one in drawn]
        assert times[0] == times[1]
        assert len(set(times[0])) > 10
    # A run of ten iterations uses ten draws, whatever happens on the network; this is the eleventh.
    ran = simulate(job, policy, seed=seed)
    assert ran.compute_ns(ran.workers["h0"]) == _draw(job, seed, 11)


def _draw(job: JobSpec, seed: int, number: int) -> int:
    fresh = TrainingJob(job, seed)
    return [fresh.compute_ns(fresh.workers["h0"]) for _ in range(number)][-1]


def test_workers_and_seeds_draw_differently() -> None:
    job = TrainingJob(ring("h0", "h1", jitter=0.1), 1)
    other = TrainingJob(ring("h0", "h1", jitter=0.1), 2)
    draws = [one.compute_ns(one.workers[host]) for one in (job, other) for host in ("h0", "h1")]
    assert len(set(draws)) == 4


def test_jitter_is_relative_and_never_negative() -> None:
    job = TrainingJob(ring("h0", "h1", jitter=5.0), 1)
    draws = [job.compute_ns(job.workers["h0"]) for _ in range(1000)]
    assert min(draws) == round(SHORTEST_COMPUTE * 200 * MS)
    steady = TrainingJob(ring("h0", "h1"), 1)
    assert {steady.compute_ns(steady.workers["h0"]) for _ in range(10)} == {200 * MS}


def test_mean_and_deviation_are_as_written() -> None:
    job = TrainingJob(ring("h0", "h1", jitter=0.05), 1)
    draws = [job.compute_ns(job.workers["h0"]) / (200 * MS) for _ in range(4000)]
    mean = sum(draws) / len(draws)
    deviation = (sum((draw - mean) ** 2 for draw in draws) / len(draws)) ** 0.5
    assert mean == pytest.approx(1.0, abs=0.005)
    assert deviation == pytest.approx(0.05, rel=0.1)


# ---- Which flows wait for which ----


def test_a_server_answers_once_every_worker_has_begun_to_push() -> None:
    job = TrainingJob(parameter_server(("h0", "h1"), ("h2",)), 1)
    first = dict(job.computed(job.workers["h0"]))
    assert {flow.role for flow in first} == {Role.PUSH}
    second = dict(job.computed(job.workers["h1"]))
    assert {flow.role for flow in second} == {Role.PUSH, Role.PULL}
    assert set(second.values()) == {0}


def test_a_worker_goes_on_when_it_has_sent_and_received_everything() -> None:
    job = TrainingJob(ring("h0", "h1", "h2"), 1)
    worker = job.workers["h1"]
    flows = {spec.flow.source: spec.flow for spec in job.flows}
    for other in job.workers.values():
        list(job.computed(other))
    assert list(job.flow_done(flows["h0"], 10)) == []  # it has received, and not yet sent
    assert list(job.flow_done(flows["h1"], 20)) == [worker]
    assert (worker.iteration, list(job.iteration_ends_ns)) == (1, [])  # the others are not through
    assert {one.host for one in job.flow_done(flows["h2"], 30)} == {"h0", "h2"}
    assert list(job.iteration_ends_ns) == [30]


def test_a_job_is_finished_after_its_iterations() -> None:
    job = simulate(ring("h0", "h1"))
    assert job.finished
    assert len(job.iteration_ends_ns) == 10
    assert list(job.iteration_ends_ns) == sorted(job.iteration_ends_ns)


def test_a_job_without_end_runs_until_the_duration() -> None:
    endless = replace(ring("h0", "h1"), iterations=None)
    scenario = Scenario("endless", 1, 4.1, SlotsSpec(), star(2, 1.0), (endless,), ())
    simulation = Simulation(scenario, "fair", 1)
    simulation.run()
    assert simulation.now_ns == 4_100 * MS
    assert not simulation.jobs["ring"].finished
    assert len(simulation.jobs["ring"].iteration_ends_ns) == 10


def test_a_job_starts_when_it_is_told_to() -> None:
    late = simulate(replace(ring("h0", "h1"), start_s=1.5))
    assert late.iteration_ends_ns[0] == 1_900 * MS

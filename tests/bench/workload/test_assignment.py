"""What one process of a job is told."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.workload.assignment import Assignment, ComputeTimes, computing_beside
from paceline.flowcore.model.scenario import Backend, JobSpec, Pattern
from paceline.sim.jobs import TrainingJob

names = st.lists(st.sampled_from(["h0", "h1", "h2", "h3"]), min_size=1, unique=True).map(tuple)


@given(workers=names, servers=names, model_mb=st.floats(0.001, 1e6), iterations=st.none() | st.integers(1, 100))
def test_an_assignment_survives_the_journey(
    workers: tuple[str, ...], servers: tuple[str, ...], model_mb: float, iterations: int | None
) -> None:
    job = JobSpec("j", Pattern.PS, workers, servers, model_mb, 0.5, iterations, 0.0, 0.1, 0.5, 3, Backend.NCCL)
    own = Assignment(job, 3, 7, servers[0], True, {"h0": "198.18.0.1"})
    assert Assignment.from_json(own.to_json()) == own
    assert own.rank == len(workers)


def test_workers_compute_as_in_the_simulator() -> None:
    spec = JobSpec("ring", Pattern.ALLREDUCE, ("h0", "h1", "h2"), (), 6.0, 0.1, 8, 0.0, jitter=0.1)
    simulated = TrainingJob(spec, 5)
    for host in spec.workers:
        own = ComputeTimes(Assignment(spec, 0, 5, host, False, {}))
        expected = [simulated.compute_ns(simulated.workers[host]) / 1e9 for _ in range(5)]
        assert [own.next_s() for _ in range(5)] == expected
        assert len(set(expected)) == 5


def test_pieces_are_those_of_the_simulator() -> None:
    spec = JobSpec("ring", Pattern.ALLREDUCE, ("h0", "h1"), (), 6.0, 0.1, 8, 0.0, 0.1, overlap=0.25, bursts=4)
    simulated, own = TrainingJob(spec, 5), ComputeTimes(Assignment(spec, 0, 5, "h0", False, {}))
    for _ in range(3):
        before_ns, beside_ns = simulated.piece_ns(simulated.workers["h0"])
        assert own.pieces_s() == [pytest.approx((before_ns / 1e9, beside_ns / 1e9), abs=1e-8)] * 4


def test_computing_beside_ends_with_the_later_of_both() -> None:
    for meanwhile_s, expected_s in ((0.01, 0.05), (0.1, 0.1)):
        began_s = time.monotonic()
        with computing_beside(0.05):
            time.sleep(meanwhile_s)
        assert expected_s <= time.monotonic() - began_s < expected_s + 0.04

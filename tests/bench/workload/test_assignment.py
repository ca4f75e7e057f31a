"""What one process of a job is told."""

from hypothesis import given
from hypothesis import strategies as st

from bench.workload.assignment import Assignment, ComputeTimes
from paceline.flowcore.model.scenario import JobSpec, Pattern
from paceline.sim.jobs import TrainingJob

names = st.lists(st.sampled_from(["h0", "h1", "h2", "h3"]), min_size=1, unique=True).map(tuple)


@given(workers=names, servers=names, model_mb=st.floats(0.001, 1e6), iterations=st.none() | st.integers(1, 100))
def test_an_assignment_survives_the_journey(
    workers: tuple[str, ...], servers: tuple[str, ...], model_mb: float, iterations: int | None
) -> None:
    job = JobSpec("j", Pattern.PS, workers, servers, model_mb, 0.5, iterations, 0.0, 0.1)
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

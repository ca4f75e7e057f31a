"""What holds jobs back in the engine: no job is forgotten, gates hold what they promise, shifts keep jobs apart."""

import pytest

from paceline.flowcore.allocation.gates import GATES
from paceline.flowcore.model.scenario import JobSpec, Pattern, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.flowcore.model.units import ns_from_s
from paceline.sim.array.engine import ArraySimulation
from paceline.sim.array.gating import Gated, Shifted
from paceline.sim.cassini import Cassini, footprint
from paceline.sim.jobs import TrainingJob

SECOND_NS = ns_from_s(1.0)
TEN_GBPS = star(4, 10.0)


def spec(name: str, model_mb: float, compute_s: float, iterations: int, *, pattern: str = "allreduce") -> JobSpec:
    servers = ("h0",) if pattern == "ps" else ()
    return JobSpec(name, Pattern(pattern), ("h0", "h1"), servers, model_mb, compute_s, iterations, 0.0, 0.02)


def prepared(scheduler: str, *specs: JobSpec) -> tuple[ArraySimulation, list[TrainingJob]]:
    simulation = ArraySimulation(TEN_GBPS, SlotsSpec().clock(), scheduler, step_ms=1.0)
    jobs = [TrainingJob(one, 1) for one in specs]
    for job in jobs:
        simulation.start(job)
    return simulation, jobs


def finished_s(simulation: ArraySimulation, jobs: list[TrainingJob]) -> float:
    simulation.run(100 * SECOND_NS)
    assert all(job.finished for job in jobs)
    return max(job.iteration_ends_ns[-1] for job in jobs) / 1e9


@pytest.mark.parametrize("flow_policy", ["fair", "fair-penalty", "paceline", "mlcc"])
@pytest.mark.parametrize("communication", [*GATES, "cassini"])
def test_every_gate_goes_with_every_flow_policy_and_starves_no_job(flow_policy: str, communication: str) -> None:
    mix = [spec("a", 50.0, 0.05, 6), spec("b", 20.0, 0.02, 8), spec("p", 30.0, 0.03, 5, pattern="ps")]
    assert finished_s(*prepared(f"{flow_policy}+{communication}", *mix)) < 10.0


@pytest.mark.parametrize(("gate", "most"), [("srsf1", 1), ("srsf2", 2), ("adadual", 2)])
def test_no_more_jobs_send_than_the_gate_lets(gate: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    admit = Gated._admit

    def watched(self: Gated) -> None:
        admit(self)
        seen.append(len(self._sending))

    monkeypatch.setattr(Gated, "_admit", watched)
    mix = [spec(f"j{number}", 10.0 + 90.0 * number, 0.01, 10) for number in range(4)]
    finished_s(*prepared(f"fair+{gate}", *mix))
    assert max(seen) == most


def test_taking_turns_beats_colliding_where_colliding_costs() -> None:
    """Two like jobs that fit behind each other, TCP with the penalty that Ada-SRSF measured."""
    pair = [spec(name, 100.0, 0.1, 40) for name in ("a", "b")]
    collided_s = finished_s(*prepared("fair-penalty", *pair))
    assert finished_s(*prepared("fair-penalty+srsf1", *pair)) < 0.95 * collided_s


def test_shifts_keep_two_jobs_apart() -> None:
    """Iterations with CASSINI's times are as long as alone, and a good deal shorter than without."""
    pair = [spec(name, 100.0, 0.12, 60) for name in ("a", "b")]
    alone_s = finished_s(*prepared("fair", pair[0]))
    untimed_s = finished_s(*prepared("fair+cassini", *pair))  # no job has a time: as without
    cassini = Cassini(TEN_GBPS)
    for one in pair:
        cassini.joined(one)
    shifted, jobs = prepared("fair+cassini", *pair)
    assert isinstance(shifted.gating, Shifted)
    shifted.gating.due = cassini.due({}, 0)
    together_s = finished_s(shifted, jobs)
    assert together_s < 1.1 * alone_s
    assert together_s < 0.95 * untimed_s
    # Two jobs keep to times for 59 iterations each: the first goes to its time and does not count.
    (_, every_ns), _ = cassini.due({}, 0).values()
    assert shifted.gating.timed_ns == 2 * 59 * every_ns
    assert shifted.gating.adjustments < 6


def test_a_job_keeps_its_time_when_others_come_and_go() -> None:
    cassini = Cassini(TEN_GBPS)
    for name in ("a", "b"):
        cassini.joined(spec(name, 100.0, 0.12, 10))
    before = cassini.due({}, 0)
    cassini.joined(spec("c", 10.0, 0.12, 10))
    after = cassini.due(before, SECOND_NS)
    assert after["a"][0] == before["a"][0]
    cassini.left("b")
    cassini.left("c")
    assert cassini.due(after, SECOND_NS) == {}


def test_a_footprint_is_what_a_job_does_alone() -> None:
    seen = footprint(spec("a", 125.0, 0.2, 10), TEN_GBPS)
    profile, *_ = seen.profiles.values()
    (up,) = profile.phases
    assert up.length_ms == pytest.approx(100.0)  # two workers send the model once each
    assert up.gbps == pytest.approx(10.0)
    assert 0.2e3 < up.start_ms < 0.22e3  # the slower of two workers
    assert profile.iteration_ms == pytest.approx(up.start_ms + 100.0)

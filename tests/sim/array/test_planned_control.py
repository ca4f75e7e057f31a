"""mlcc in C decides what the agents decide, at the same nanosecond."""

from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path

import pytest

from paceline.flowcore.model.units import ns_from_s
from paceline.sim.agreement.engines import shortened
from paceline.sim.array import engine
from paceline.sim.array.agents import AgentControl
from paceline.sim.array.control import Control, ControlContext
from paceline.sim.array.engine import run_scenario
from paceline.sim.array.planned.control import PlannedControl, planned_control
from paceline.sim.array.planned.numbers import REST_NS, Numbers
from paceline.sim.kernel.library import library
from paceline.sim.scenario_file import read_scenario
from paceline.sim.trace.profiles import PROFILES
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.sampled import SampledEngine
from paceline.sim.trace.workload import build_topology, read_jobs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(library() is None, reason="without a compiler mlcc runs in the agents"),
]

ROOT = Path(__file__).parents[3]


def in_the_agents(context: ControlContext) -> Control | None:
    return None


BOTH: list[tuple[Callable[[ControlContext], Control | None], type]] = [
    (planned_control, PlannedControl),
    (in_the_agents, AgentControl),
]


@pytest.mark.parametrize("policy", ["mlcc", "mlcc-open", "mlcc:slot-mean:tail"])
@pytest.mark.parametrize("name", ["mixed", "clos", "tree"])
def test_iterations_of_a_scenario_end_at_the_same_time(name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, found = read_scenario(ROOT / f"scenarios/{name}.toml"), list[dict[str, list[int]]]()
    for chosen, kind in BOTH:
        monkeypatch.setattr(engine, "planned_control", chosen)
        simulation, jobs = run_scenario(shortened(whole, 3), policy, 2)
        assert type(simulation.control) is kind
        found.append({job.spec.name: job.iteration_ends_ns for job in jobs})
    assert found[0] == found[1]


@pytest.mark.parametrize("policy", ["mlcc", "mlcc-open"])
def test_jobs_that_come_and_leave_end_at_the_same_time(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Across racks, some stopped in the middle of what they send."""
    found = list[list[tuple[str, float]]]()
    for chosen, kind in BOTH:
        monkeypatch.setattr(engine, "planned_control", chosen)
        jobs = read_jobs(ROOT / "workloads/engines/thousand.toml", "generated", PROFILES, 1, most=30).items
        options = TraceOptions(servers=18, placement="random", policy=policy, sample_s=inf, until_s=3.5, step_ms=0.01)
        run = TraceRun(build_topology("section-vii", 18), options)
        assert isinstance(run.engine, SampledEngine)
        array = run.engine.array
        assert type(array.control) is kind
        for leaves_s in (1, 2):
            array.at(ns_from_s(leaves_s), partial(_stop_one, run))
        run.run(jobs)
        assert len(array.jobs) > 3
        ends = [(name, end) for name, job in array.jobs.items() for end in job.training.iteration_ends_ns]
        found.append([*ends, *((name, record.iterations_done) for name, record in run.records.items())])
    assert found[0] == found[1]


def _stop_one(run: TraceRun) -> None:
    assert isinstance(run.engine, SampledEngine)
    if run.engine.array.jobs:
        run._stop(min(run.engine.array.jobs))


def test_messages_that_take_a_good_part_of_a_slot_are_the_agents() -> None:
    scenario = shortened(read_scenario(ROOT / "scenarios/two-jobs.toml"), 1)
    simulation, _ = run_scenario(scenario, "mlcc", 1, latency_ms=20.0)
    assert type(simulation.control) is AgentControl


def test_a_number_rests_before_it_is_used_again() -> None:
    numbers = Numbers()
    assert [numbers.take(0), numbers.take(0)] == [0, 1]
    numbers.give_back(0, 5)
    assert numbers.take(REST_NS) == 2
    assert numbers.take(REST_NS + 5) == 0

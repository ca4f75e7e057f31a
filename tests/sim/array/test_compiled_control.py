"""The control in C decides what ArbitratedControl decides, at the same nanosecond."""

from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

import pytest

from paceline.flowcore.model.units import ns_from_s
from paceline.sim.agreement.engines import shortened
from paceline.sim.array import engine, settlement
from paceline.sim.array.arbitrated import ArbitratedControl
from paceline.sim.array.compiled_control import CompiledControl, compiled_control
from paceline.sim.array.control import Control, ControlContext
from paceline.sim.array.engine import run_scenario
from paceline.sim.kernel.library import library
from paceline.sim.scenario_file import read_scenario
from paceline.sim.trace.profiles import PROFILES
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.sampled import SampledEngine
from paceline.sim.trace.workload import build_topology, read_jobs

pytestmark = pytest.mark.skipif(library() is None, reason="there is no control in C without a compiler")

ROOT = Path(__file__).parents[3]
Ends = dict[str, list[int]]


def in_python(context: ControlContext) -> Control | None:
    return None


@pytest.mark.parametrize("policy", ["paceline", "paceline:jct", "srpt", "fifo", "mcs", "crux"])
@pytest.mark.parametrize("name", ["clos", "tree"])
def test_iterations_of_a_scenario_end_at_the_same_time(name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, found = read_scenario(ROOT / f"scenarios/{name}.toml"), list[Ends]()
    scenario = replace(shortened(whole, 6), cross_traffic=())  # beside some, paceline runs in the agents
    for chosen, kind in ((compiled_control, CompiledControl), (in_python, ArbitratedControl)):
        monkeypatch.setattr(engine, "compiled_control", chosen)
        simulation, jobs = run_scenario(scenario, policy, 2)
        assert type(simulation.control) is kind
        found.append({job.spec.name: job.iteration_ends_ns for job in jobs})
    assert found[0] == found[1]


@pytest.mark.parametrize("placement", ["random", "first-fit"])
def test_jobs_that_come_and_leave_end_at_the_same_time(placement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, host parts and contenders of jobs that left are used again. In numpy a crowd's bids are rounded in another
    place (x² is no power there), and a tie makes jobs take other turns: here they are Python's."""
    monkeypatch.setattr(settlement, "FEW_FLOWS", 10**9)
    found = list[list[tuple[str, float]]]()
    for chosen in (compiled_control, in_python):
        monkeypatch.setattr(engine, "compiled_control", chosen)
        jobs = read_jobs(ROOT / "workloads/engines/thousand.toml", "generated", PROFILES, 1, most=30).items
        options = TraceOptions(servers=18, placement=placement, sample_s=inf, until_s=8.0, step_ms=5.0)
        run = TraceRun(build_topology("section-vii", 18), options)
        assert isinstance(run.engine, SampledEngine)
        array = run.engine.array
        for leaves_s in (2, 3, 5):  # ahead of its end, as a scheduler would stop it
            array.at(ns_from_s(leaves_s), partial(_stop_one, run))
        run.run(jobs)
        assert len(array.jobs) > 5
        ends = [(name, end) for name, job in array.jobs.items() for end in job.training.iteration_ends_ns]
        found.append([*ends, *((name, record.iterations_done) for name, record in run.records.items())])
    assert found[0] == found[1]


def _stop_one(run: TraceRun) -> None:
    assert isinstance(run.engine, SampledEngine)
    if run.engine.array.jobs:
        run._stop(min(run.engine.array.jobs))

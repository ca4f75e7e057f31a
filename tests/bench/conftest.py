"""For tests of the bench: a small scenario, and fake runs without a network, which take no time and whose results
follow from a factor per control.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.acceptance import mixes
from bench.experiments.paper import delay, jct_simulated, rate
from bench.experiments.paper.overhead import MeteredControl
from bench.experiments.paper.turns import JobRates
from bench.jobs import cases as jobs_cases
from bench.jobs.control import DaemonCpu
from bench.jobs.run import Conditions, JobsRun
from bench.micro.rate import Setup
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.jobs import TrainingJob

# Iteration time ÷ computing time, where jobs run together.
FACTORS = {
    "reno": 1.6,
    "cubic": 1.5,
    "bbr": 1.7,
    "mlcc": 2.0,
    "paceline": 1.3,
    **dict.fromkeys(("paceline-first", "paceline-jct", "paceline-jct-first"), 1.3),
    "observe": 1.0,
}
ALONE = 1.2
ITERATIONS = 12


class FakeRuns:
    """In place of run_once; `made` has the controls' names in the order of the runs."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(
        self, scenario: Scenario, control: Any, conditions: Conditions, fork_server: Any, tick: Any
    ) -> JobsRun:
        self.made.append(control.name)
        tick()
        lasted_ns = 0
        factor = ALONE if len(scenario.jobs) == 1 and not scenario.cross_traffic else FACTORS[control.name]
        factor *= 1 + (10 * conditions.impairment.loss if control.name != "paceline" else 0.0)
        jobs = tuple(TrainingJob(spec, conditions.seed) for spec in scenario.jobs)
        for job in jobs:
            start_ns, step_ns = round(job.spec.start_s * 1e9), round(job.spec.compute_s * factor * 1e9)
            count = job.spec.iterations or ITERATIONS
            job.iteration_ends_ns = [start_ns + step_ns * number for number in range(1, count + 1)]
            lasted_ns = max(lasted_ns, job.iteration_ends_ns[-1])
        if isinstance(control, JobRates):
            control.recording.times_ns += (0, 20_000_000, 40_000_000)
            for mbps in (100, 400, 0):
                control.recording.rates_bps.append({FlowId("VGG19", "h0", "h1", Role.RING): mbps * 1e6})
        if isinstance(control, MeteredControl):
            control._mbps += (0.5, 1.5)
        cpu = DaemonCpu(10.0, 5.0) if control.name in ("mlcc", "paceline") else DaemonCpu()
        return JobsRun(control.name, jobs, lasted_ns, {}, (10_000_000,) * len(scenario.cross_traffic), cpu)

    def queued(
        self, scenario: Scenario, control: Any, conditions: Conditions, shared: Any, fork_server: Any, tick: Any
    ) -> JobsRun:
        """Every job gets its GPUs as it arrives."""
        starts_ns = {job.name: round(job.start_s * 1e9) for job in scenario.jobs}
        return replace(self(scenario, control, conditions, fork_server, tick), starts_ns=starts_ns)


@pytest.fixture
def fake_runs(monkeypatch: pytest.MonkeyPatch) -> FakeRuns:
    fake = FakeRuns()
    monkeypatch.setattr(jobs_cases, "run_once", fake)
    monkeypatch.setattr(jobs_cases, "run_queued", fake.queued)
    monkeypatch.setattr(jobs_cases, "_fork_server", lambda of: nullcontext())
    monkeypatch.setattr(mixes, "simulated_slowdown", lambda scenario: 1.2)
    return fake


@pytest.fixture
def fake_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurements that run no jobs."""

    def measured_rate(backend: str, setup: Setup) -> dict[str, object]:
        errors = {"median_error_percent": 0.5, "p95_error_percent": 3.0, "settle_ms_p95": 2.0}
        return {"backend": backend, "flows": setup.flows, **errors}

    staircase = {"asked_mbps": [[0.0, 400.0], [60.0, 100.0]], "achieved_mbps": [[0.0, 398.0], [60.0, 101.0]]}
    negotiation = {"p50_ms": 2.0, "p90_ms": 4.0, "p99_ms": 8.0, "missed_slots": 0, "negotiations": 100}
    monkeypatch.setattr(rate.rate, "measure_rate", measured_rate)
    monkeypatch.setattr(rate, "_staircase", lambda backend: staircase)
    monkeypatch.setattr(delay, "measure", lambda setup, progress: dict(negotiation))
    monkeypatch.setattr(delay, "measure_decisions", lambda seed, decisions: {"p90_decision_us": 60.0})
    monkeypatch.setattr(delay, "measure_allocate", lambda seed, flows: {"us_per_flow": {"10": 4.0}})
    monkeypatch.setattr(jct_simulated, "JOBS", jct_simulated.QUICK_JOBS)


SMALL = """
version = 1
name = "small"
[topology]
kind = "star"
hosts = 2
link_gbps = 0.5
[[job]]
name = "a"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 2.0
compute_s = 0.05
iterations = 6
[[job]]
name = "b"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 2.0
compute_s = 0.05
iterations = 6
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path

"""`paceline demo` for real: jobs over an emulated link, in small, and the picture of what they did."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.jobs import cases as jobs_cases
from bench.jobs.run import JobsRun
from paceline import cli
from paceline.commands import demo
from paceline.flowcore.model import scenario as scenarios
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.reference.engine import Recording
from paceline.sim.report import figure
from tests.bench.jobs.test_link_recorder import recorded_bytes

CONTROLS = ("cubic", "paceline")
TIMES = 4.0  # smaller than the demo's
ITERATIONS = 8
SIZE_BYTES = 25e6 / TIMES


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = scenarios.parse_scenario

    def small(text: str, name: str) -> Scenario:
        whole = parse(text, name)
        small_jobs = (
            replace(spec, model_mb=spec.model_mb / TIMES, compute_s=spec.compute_s / TIMES, iterations=ITERATIONS)
            for spec in whole.jobs
        )
        return replace(whole, jobs=tuple(small_jobs))

    monkeypatch.setattr(scenarios, "parse_scenario", small)
    monkeypatch.setattr(demo, "CONTROLS", CONTROLS)


@pytest.mark.usefixtures("small_demo")
@pytest.mark.parametrize("workload", [[], ["--torch"]], ids=["synthetic", "torch"])
def test_the_demo_runs_and_draws_what_the_jobs_sent(
    workload: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runs: dict[str, JobsRun] = {}
    recordings: dict[str, Recording] = {}
    run_once, draw_panels = jobs_cases.run_once, figure.draw_panels

    def noted(*arguments: Any) -> JobsRun:
        run = run_once(*arguments)
        runs[run.control] = run  # jobs alone come first
        return run

    def drawn(panels: list[Any], *rest: Any) -> None:
        recordings.update(zip(CONTROLS, (panel.recording for panel in panels), strict=True))
        draw_panels(panels, *rest)

    monkeypatch.setattr(jobs_cases, "run_once", noted)
    monkeypatch.setattr(figure, "draw_panels", drawn)
    picture = tmp_path / "demo.png"
    assert cli.main(["demo", *workload, "--json", "--figure", str(picture)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["simulated"] is False
    assert [row["control"] for row in document["controls"]] == [*CONTROLS]
    for row in document["controls"]:
        assert row.keys() == {"control", "mean_iteration_s", "mean_slowdown", "ratio_to_bound"}
        assert row["mean_slowdown"] > 0 and row["ratio_to_bound"] > 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    for control in CONTROLS:
        for job in runs[control].jobs:
            assert len(job.iteration_ends_ns) == ITERATIONS
            sent = recorded_bytes(recordings[control], job.spec.name)
            # A process that is done leaves at once: its last bytes may be missed.
            assert SIZE_BYTES * (ITERATIONS - 1) < sent < 1.01 * SIZE_BYTES * ITERATIONS

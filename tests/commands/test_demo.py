"""`paceline demo`: simulated, and for real over an emulated link in small, with the picture of what the jobs did."""

import json
import sys
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
from paceline.sim.recording import Recording
from paceline.sim.report import figure
from tests.bench.jobs.test_link_recorder import recorded_bytes
from tests.commands.output import one_line

pytestmark = [pytest.mark.root, pytest.mark.slow]

CONTROLS = ("cubic", "paceline")
TIMES = 4.0  # smaller than the demo's
ITERATIONS = 8
SIZE_BYTES = 25e6 / TIMES


def test_missing_matplotlib_is_said_before_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["demo", "--simulate", "--figure", str(tmp_path / "demo.png")]) == 2
    assert one_line(capsys) == "paceline: figures need matplotlib: pip install 'paceline[plot]'\n"


def test_demo_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure = tmp_path / "demo.png"
    assert cli.main(["demo", "--simulate", "--json", "--figure", str(figure)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["figure"] == str(figure)
    assert figure.read_bytes().startswith(b"\x89PNG")
    fair, ours = document["controls"]
    assert (fair["control"], ours["control"]) == ("fair", "paceline")
    assert ours["mean_slowdown"] < 1.05 < 1.3 < fair["mean_slowdown"]
    assert ours["ratio_to_bound"] < fair["ratio_to_bound"]


def test_the_figure_goes_to_the_current_directory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--simulate"]) == 0
    out, err = capsys.readouterr()
    assert "simulator" in out
    assert err == ""  # no progress bar: stderr is no terminal
    assert (tmp_path / "out" / "demo.png").exists()


@pytest.mark.usefixtures("without_testbed")
def test_without_the_testbed_the_demo_is_simulated_and_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["demo", "--figure", str(tmp_path / "demo.png")]
    assert cli.main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["simulated"] is True
    assert err == "paceline: the testbed is part of a checkout only; simulating instead\n"
    assert cli.main(arguments) == 0
    assert "This was the simulator." in capsys.readouterr().out
    assert cli.main([*arguments, "--torch"]) == 2  # which the simulator cannot do
    assert "which only a checkout has" in one_line(capsys)


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

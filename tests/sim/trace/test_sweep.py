"""A sweep loses nothing when interrupted, and Ray gives the same rows as this machine."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from paceline.cli import main
from paceline.sim.trace import sweep
from paceline.sim.trace.results import Row

pytestmark = pytest.mark.slow

SWEEP = """
servers = 8
gpus_per_server = 2
policies = ["fair", "paceline"]
seeds = [1, 2]
longest_iterations = 5
[[trace]]
file = "w.toml"
format = "generated"
jobs = 6
"""
MEASURED = ("wall_s", "settle_us", "settle_cdf_us")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[sweep.SweepRun, ...]:
    (tmp_path / "w.toml").write_text("compute_scale = 4.0\n")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return sweep.read_sweep(tmp_path / "sweep.toml")


def computed(rows: list[Row]) -> list[Row]:
    kept = [{key: value for key, value in row.items() if key not in MEASURED} for row in rows]
    return sorted(kept, key=lambda row: str(row["run"]))


def test_an_interrupted_sweep_does_what_is_missing(tmp_path: Path, runs: tuple[sweep.SweepRun, ...]) -> None:
    results = tmp_path / "results.jsonl"
    sweep.append(results, sweep.perform(runs[0]))
    with results.open("a") as file:
        file.write('{"run": {"policy": "pace')  # cut off by the interruption
    todo = sweep.missing(runs, sweep.read_rows(results))
    assert todo == list(runs[1:])
    for row in sweep.local(todo, processes=1):
        sweep.append(results, row)
    rows = sweep.read_rows(results)
    assert len(rows) == len(runs)
    assert sweep.missing(runs, rows) == []


def test_the_array_engine_may_have_its_old_name(tmp_path: Path, runs: tuple[sweep.SweepRun, ...]) -> None:
    """In a sweep's file, and in results that were written before it was renamed: those are not done again."""
    (tmp_path / "old.toml").write_text('engine = "fast"\n' + SWEEP)
    assert sweep.read_sweep(tmp_path / "old.toml") == runs
    results = tmp_path / "results.jsonl"
    for run in runs:
        sweep.append(results, {"run": sweep.identity(run) | {"engine": "fast"}, "engine": "fast"})
    rows = sweep.read_rows(results)
    assert {row["engine"] for row in rows} == {"array"}
    assert sweep.missing(runs, rows) == []


def test_ray_gives_the_same_rows(runs: tuple[sweep.SweepRun, ...]) -> None:
    assert computed(list(sweep.on_ray(list(runs)))) == computed(list(sweep.local(list(runs), processes=1)))


def test_compare_reads_what_sweep_wrote(
    tmp_path: Path, runs: tuple[sweep.SweepRun, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    results, figure = tmp_path / "r.jsonl", tmp_path / "cdf.png"
    command = ["sim", "sweep", str(tmp_path / "sweep.toml"), "--results", str(results), "--processes", "1"]
    assert main(command) == 0
    assert main(["sim", "compare", str(results), "--figure", str(figure)]) == 0
    assert "shorter" in capsys.readouterr().out
    assert figure.stat().st_size > 10_000


def test_a_sweep_that_is_told_to_stop_takes_its_workers_along(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text("compute_scale = 4.0\nmedian_s = 1e6\n")
    (tmp_path / "sweep.toml").write_text(SWEEP.replace("longest_iterations = 5", "sample_s = 0.0"))  # days
    command = [sys.executable, "-m", "paceline", "sim", "sweep", str(tmp_path / "sweep.toml"), "--processes", "2"]
    with subprocess.Popen([*command, "--results", str(tmp_path / "r.jsonl")]) as sweeping:
        parent = psutil.Process(sweeping.pid)
        workers: list[psutil.Process] = []
        while len([one for one in workers if "spawn_main" in " ".join(one.cmdline())]) < 2:
            assert sweeping.poll() is None
            time.sleep(0.05)
            workers = parent.children(recursive=True)
        sweeping.terminate()
        assert sweeping.wait(timeout=60) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(workers, timeout=30)
    for one in alive:
        one.kill()
    assert not alive


def test_a_wrong_sweep_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.toml").write_text(SWEEP.replace('"fair"', '"fare"'))
    assert main(["sim", "sweep", str(tmp_path / "s.toml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1

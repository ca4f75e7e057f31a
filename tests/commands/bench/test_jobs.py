"""`paceline bench jobs`: what it refuses, what it prints, and what an interrupted or killed command leaves."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench.child_process import owner_mark
from bench.jobs import cases as jobs_cases
from bench.jobs.control_names import BACKENDS
from bench.jobs.daemon_control import LIMITLESS_MODES
from bench.jobs.process_group import RunFailed
from bench.jobs.run import JobsRun
from bench.jobs.tcp_control import MLTCP, TCP
from bench.testbed import network
from bench.testbed.leftovers import marked_processes, remove_leftovers
from paceline import cli
from paceline.flowcore.policy import FOR_DAEMONS
from tests.bench.conftest import SMALL, FakeRuns, fake_runs, small
from tests.bench.testbed.test_leftovers import alive, wait_until

__all__ = ["fake_runs", "small"]  # fixtures

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).parents[3]


def test_the_help_names_the_shipped_controls_and_none_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "jobs", "--help"]) == 0
    (said,) = re.findall(r"Controls: (.*?)\.\s", capsys.readouterr().out, re.DOTALL)
    names = re.sub(r"\(.*?\)", "", said, flags=re.DOTALL)
    named = set(re.split(r"[;,\s]+", names.strip()))
    alone = {*TCP, *MLTCP, *LIMITLESS_MODES, *BACKENDS}
    assert alone | {"paceline", "mlcc"} <= named <= alone | {*FOR_DAEMONS}


def test_a_control_named_twice_runs_once(small: Path, fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "jobs", str(small), "--control", "reno, reno,bbr , reno", "--json"]) == 0
    assert [control["control"] for control in json.loads(capsys.readouterr().out)["controls"]] == ["reno", "bbr"]
    assert fake_runs.made == ["cubic", "cubic", "reno", "bbr"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--control", "cubic,vegas"], "'vegas'"),
        (["--workload", "ps"], "pattern is allreduce"),
        (["--workload", "mpi"], "mpi"),
        (["--workload", "a=fsdq"], "did you mean 'fsdp'?"),
        (["--workload", "c=fsdp"], "names job 'c'; the scenario has a, b"),
        (["--repeat", "0"], "an integer from 1"),
        (["--loss", "1"], "a number from 0"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    small: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "jobs", str(small), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_control_the_kernel_lacks_is_refused_before_any_run(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(network, "has_congestion_control", lambda name: name != "bbr")
    results = small.with_name("results")
    for command in (["jobs", str(small), "--control", "cubic,bbr"], ["paper", "alone", "--out", str(results)]):
        assert cli.main(["bench", *command]) == 2
        why = "this kernel has not loaded bbr (sudo modprobe tcp_bbr)"
        assert capsys.readouterr() == ("", f"paceline: control 'bbr': {why}\n")
    assert not results.exists()


def test_by_default_a_control_that_the_kernel_lacks_is_left_out_with_a_word(
    small: Path, fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(network, "has_congestion_control", lambda name: name != "bbr")
    assert cli.main(["bench", "jobs", str(small), "--json"]) == 0
    out, err = capsys.readouterr()
    assert [control["control"] for control in json.loads(out)["controls"]] == ["reno", "cubic", "paceline"]
    assert "without bbr: this kernel has not loaded bbr (sudo modprobe tcp_bbr)" in err


def test_the_command_prints_the_keys_of_the_contract(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--control", "reno,bbr", "--workload", "synthetic", "--json"]
    assert cli.main(["bench", "jobs", str(small), *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["network_bytes_checked"] is True
    assert [control["control"] for control in report["controls"]] == ["reno", "bbr"]
    keys = {"name", "iterations", "alone_iteration_s", "mean_iteration_s", "p99_iteration_s", "slowdown", "jct_s"}
    for control in report["controls"]:
        assert control.keys() >= {"mean_slowdown", "ratio_to_bound", "host_cpu_percent"}
        assert control["host_cpu_percent"] == 0
        assert all(job.keys() >= keys for job in control["jobs"])
        assert [len(times) for times in control["runs"][0]["iteration_s"].values()] == [6, 6]
        assert 0.8 < control["mean_slowdown"] < 5
    assert report["machine"]["cpus"] == os.cpu_count()


def test_a_run_that_fails_is_made_again_and_reported(
    small: Path, fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def first_fails(*arguments: Any) -> JobsRun:
        run = fake_runs(*arguments)
        if len(fake_runs.made) == 1:
            raise RunFailed("a worker on h0 failed")
        return run

    monkeypatch.setattr(jobs_cases, "run_once", first_fails)
    command = ["bench", "jobs", str(small), "--control", "reno,mlcc", "--repeat", "2"]
    assert cli.main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["failed_runs"] == ["small, a alone: a worker on h0 failed"]
    assert fake_runs.made == ["cubic"] * 3 + ["reno", "mlcc"] + ["cubic"] * 2 + ["mlcc", "reno"]
    assert [(control["control"], len(control["runs"])) for control in report["controls"]] == [("reno", 2), ("mlcc", 2)]
    fake_runs.made.clear()
    assert cli.main(command) == 0
    assert "made again: small, a alone: a worker on h0 failed" in capsys.readouterr().out


def endless_jobs(small: Path, control: str) -> list[str]:
    endless = small.with_name("endless.toml")
    endless.write_text(SMALL.replace("iterations = 6", "iterations = 100000"))
    command = [sys.executable, "-m", "paceline", "bench", "jobs", str(endless)]
    return [*command, "--workload", "synthetic", "--control", control]


@pytest.mark.parametrize("least", [1, 3], ids=["while it starts", "while jobs run"])
def test_ctrl_c_is_quiet_and_leaves_nothing(small: Path, least: int) -> None:
    command = endless_jobs(small, "cubic")
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True) as owner:
        mark = owner_mark(owner.pid)

        def forks() -> list[int]:
            """The fork server and its forks."""
            found = []
            for pid, of in marked_processes():
                with suppress(OSError):  # ended while we looked
                    if of == mark and "bench.jobs.fork_server" in Path(f"/proc/{pid}/cmdline").read_text():
                        found.append(pid)
            return found

        started = wait_until(lambda: len(forks()) >= least)
        pids = forks()
        os.killpg(owner.pid, signal.SIGINT)  # as a terminal does
        try:
            _, said = owner.communicate(timeout=60)
        finally:
            owner.kill()
    assert started
    assert (owner.returncode, said) == (130, b"")
    assert wait_until(lambda: not any(map(alive, pids)))


def test_a_kill_in_the_middle_leaves_nothing(small: Path) -> None:
    command = endless_jobs(small, "paceline")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as owner:
        mark = owner_mark(owner.pid)

        def started_processes() -> dict[int, str]:
            """By pid, the command line. A guardian inherits no environment, but is told where the undo log is."""
            said: dict[int, str] = {}
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):  # ended while we looked
                    said[int(path.parent.name)] = path.read_text()
            marked = {pid for pid, of in marked_processes() if of == mark}
            return {pid: words for pid, words in said.items() if pid in marked or mark in words}

        def all_started() -> bool:
            words = " ".join(started_processes().values())
            return all(name in words for name in ("bench.jobs.fork_server", "bench.stalls", "switchd", "guardian"))

        started = wait_until(all_started)
        pids = started_processes()
        owner.send_signal(signal.SIGKILL)
    assert started
    assert wait_until(lambda: not any(map(alive, pids)))
    assert cli.main(["bench", "clean"]) == 0
    assert remove_leftovers().directories == ()

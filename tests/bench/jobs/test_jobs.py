"""`paceline bench jobs`: the order of runs, the arithmetic of the report, the command, and a kill in the middle."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from bench.child_process import owner_mark
from bench.jobs import cases as jobs_cases
from bench.jobs import control_names
from bench.jobs.cases import Measurement
from bench.jobs.control import ControlError, DaemonCpu
from bench.jobs.control_names import control_named
from bench.jobs.daemon_control import LIMITLESS_MODES, DaemonControl, Daemons
from bench.jobs.daemons import DaemonFailed, DaemonProcess
from bench.jobs.fork_server import ForkServer, ForkServerError
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.plan import ALONE_ITERATIONS, plan
from bench.jobs.process_group import RunFailed
from bench.jobs.report import Estimate, document
from bench.jobs.run import Conditions, JobsRun, run_once
from bench.jobs.tcp_control import TCP, TcpControl
from bench.testbed.leftovers import marked_processes, remove_leftovers
from paceline import cli
from paceline.flowcore.model.scenario import parse_scenario
from paceline.flowcore.policy import FOR_DAEMONS
from paceline.sim.capacity_bound import capacity_bound
from paceline.sim.jobs import TrainingJob
from paceline.sim.run import job_result, whole_iteration_s
from paceline.sim.scenario_file import read_scenario
from tests.bench.conftest import SMALL, Pretended
from tests.bench.testbed.test_leftovers import alive, wait_until

ROOT = Path(__file__).parents[3]
MIXES = sorted((ROOT / "scenarios/testbed").glob("*.toml"))


def test_every_repeat_has_each_control_once_and_each_job_alone(small: Path) -> None:
    scenario = read_scenario(small)
    planned = plan(scenario, [TcpControl(name) for name in TCP], Conditions("synthetic", 1), 4)
    names = [run.alone or run.control.name for run in planned]
    assert [names[start : start + 5] for start in range(0, 20, 5)] == [
        ["a", "b", "reno", "cubic", "bbr"],
        ["a", "b", "cubic", "bbr", "reno"],
        ["a", "b", "bbr", "reno", "cubic"],
        ["a", "b", "reno", "cubic", "bbr"],
    ]
    alone = planned[0].scenario
    assert [job.iterations for job in alone.jobs] == [6] == [min(6, ALONE_ITERATIONS)]
    assert all(run.estimate_s > 0 for run in planned)


def test_the_report_compares_with_alone_and_with_the_bound(small: Path) -> None:
    scenario = read_scenario(small)
    second = 1_000_000_000

    def run(iteration_s: float) -> JobsRun:
        jobs = tuple(TrainingJob(spec, 1) for spec in scenario.jobs)
        for job in jobs:  # a warm-up twice as long
            ends = [2 * iteration_s * n for n in (1, 2, 3)]
            ends += [ends[-1] + iteration_s * n for n in (1, 2, 3)]
            job.iteration_ends_ns = [round(end * second) for end in ends]
        return JobsRun("reno", jobs, 20 * second, {}, (), DaemonCpu(3.0, 1.0))

    conditions = Conditions("synthetic", 1)
    bound = capacity_bound([{"l": 0.75}, {"l": 0.75}])
    measured = Measurement(scenario, conditions, {"a": 1.0, "b": 1.0}, bound, {"reno": [run(1.5), run(1.7)]})
    report = document(measured, 1.0)
    (control,) = report["controls"]
    assert control["mean_slowdown"] == pytest.approx(1.6)
    assert control["whole_run_slowdown"] == pytest.approx(2.4)
    assert control["ratio_to_bound"] == pytest.approx(1.6 / 1.5)
    low, high = control["mean_slowdown_95"]
    assert (high - low) / 2 == pytest.approx(12.706 * 0.1)
    assert (control["host_cpu_percent"], control["switch_cpu_percent"]) == (3.0, 1.0)
    job = control["jobs"][0]
    assert job["mean_iteration_s"] == pytest.approx(1.6)
    assert job["warm_up_iteration_s"] == pytest.approx(3.2)
    assert job["jct_s"] == pytest.approx(fmean([13.5, 15.3]))
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize(
    ("ends_s", "whole_s"),
    [
        ([1.0], 20 / 2),  # one iteration, and then no more
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (6 + 14) / 7),  # the seventh got stuck
        ([3.0 * n for n in range(1, 7)], 3.0),
    ],
)
def test_a_job_that_starves_is_slow_over_the_whole_run(ends_s: list[float], whole_s: float) -> None:
    spec = replace(parse_scenario(SMALL, "small.toml").jobs[0], iterations=None)
    job = TrainingJob(spec, 1)
    job.iteration_ends_ns = [round(1e9 * end_s) for end_s in ends_s]
    assert whole_iteration_s(job, 20_000_000_000) == pytest.approx(whole_s)


@pytest.mark.parametrize("ends_s", [[], [1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], ids=["none", "one", "then stuck"])
def test_the_longest_iteration_is_that_of_the_simulator(small: Path, ends_s: list[float]) -> None:
    scenario, lasted_ns = read_scenario(small), 20_000_000_000
    jobs = tuple(TrainingJob(replace(spec, iterations=None), 1) for spec in scenario.jobs)
    for job in jobs:
        job.iteration_ends_ns = [round(1e9 * end_s) for end_s in ends_s]
    run = JobsRun("reno", jobs, lasted_ns, {}, (), DaemonCpu())
    bound = capacity_bound([{"l": 0.75}])
    measured = Measurement(scenario, Conditions("synthetic", 1), {"a": 1.0, "b": 1.0}, bound, {"reno": [run]})
    (control,) = document(measured, 1.0)["controls"]
    p99_s = job_result(jobs[0], 1.0, lasted_ns).p99_iteration_s
    assert [job["p99_iteration_s"] for job in control["jobs"]] == pytest.approx([p99_s] * 2)
    assert p99_s == pytest.approx({0: 20.0, 1: 19.0, 6: 14.0}[len(ends_s)])


@pytest.mark.parametrize(("number", "said"), [(signal.SIGKILL, "ended"), (signal.SIGSTOP, "does not answer")])
def test_a_daemon_that_ends_or_hangs_spoils_the_run(small: Path, number: int, said: str) -> None:
    class Mortal(DaemonControl):
        @contextmanager
        def running(self, *where: Any) -> Iterator[Daemons]:
            with super().running(*where) as daemons:
                self.daemons = daemons
                yield daemons

    control = Mortal("paceline")
    scenario = replace(read_scenario(small), duration_s=2.0)

    def tick() -> None:
        control.daemons.hosts[1].signal(number)

    with (
        ForkServer(modules_for(scenario, "synthetic"), fork_server_environment()) as fork_server,
        pytest.raises(DaemonFailed, match=f"^hostd on h1 {said}"),
    ):
        run_once(scenario, control, Conditions("synthetic", 1), fork_server, tick)


def test_a_switch_that_does_not_start_is_named_not_the_hosts_that_wait_for_it(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = DaemonProcess.start

    def without_switchd(daemon: DaemonProcess) -> None:
        if daemon.program == "switchd":
            daemon.argv = [sys.executable, "-c", "raise SystemExit('no such module')"]
        start(daemon)

    monkeypatch.setattr(DaemonProcess, "start", without_switchd)
    scenario = read_scenario(small)
    with (
        ForkServer(modules_for(scenario, "synthetic"), fork_server_environment()) as fork_server,
        pytest.raises(DaemonFailed, match=r"^switchd on sw ended: no such module$"),
    ):
        run_once(scenario, DaemonControl("paceline"), Conditions("synthetic", 1), fork_server)


def test_one_value_has_no_interval() -> None:
    assert Estimate.of([1.5]).interval() is None
    assert str(Estimate.of([1.5])) == "1.500"
    assert Estimate.of([1.0] * 40).interval() == [1.0, 1.0]


def test_controls_are_known_by_name() -> None:
    assert [control_named(name).congestion_control for name in TCP] == list(TCP)
    assert [control_named(name).name for name in FOR_DAEMONS] == list(FOR_DAEMONS)
    with pytest.raises(ControlError, match="expected one of reno") as refused:
        control_named("vegas")
    assert all(policy in str(refused.value) for policy in FOR_DAEMONS)


def test_the_help_names_every_control_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "jobs", "--help"]) == 0
    (said,) = re.findall(r"Controls: (.*?)\.\s", capsys.readouterr().out, re.DOTALL)
    names = re.sub(r"\(.*?\)", "", said, flags=re.DOTALL)
    assert sorted(re.split(r"[;,\s]+", names.strip())) == sorted((*TCP, *FOR_DAEMONS, *LIMITLESS_MODES))


def test_a_control_named_twice_runs_once(small: Path, pretended: Pretended, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "jobs", str(small), "--control", "reno, reno,bbr , reno", "--json"]) == 0
    assert [control["control"] for control in json.loads(capsys.readouterr().out)["controls"]] == ["reno", "bbr"]
    assert pretended.made == ["cubic", "cubic", "reno", "bbr"]


def test_without_torch_the_hint_fits_every_command(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError(\"No module named 'torch'\", name='torch')")
    env = fork_server_environment()
    with pytest.raises(ForkServerError) as refused:
        ForkServer(["bench.workload.ddp"], env | {"PYTHONPATH": f"{tmp_path}:{env['PYTHONPATH']}"})
    assert str(refused.value) == (
        "No module named 'torch'; real jobs need it (scripts/setup torch), synthetic ones do not"
    )


class StandIn:
    """For a daemon: giving up control for real takes many seconds."""

    def __init__(self, fail_opens: int) -> None:
        self.fails = fail_opens

    def require_running(self) -> None:
        """It runs."""

    def status(self) -> dict[str, Any]:
        return {"fail_opens": self.fails}

    def cpu_s(self) -> float:
        return 0.0


def test_what_gave_up_control_before_the_jobs_began_is_not_counted() -> None:
    hosts = [StandIn(2), StandIn(1)]
    daemons = Daemons(hosts, [StandIn(0)])  # type: ignore[arg-type]
    hosts[0].fails += 1
    assert daemons.fail_opens() == 1
    daemons.begin()
    assert daemons.fail_opens() == 0
    hosts[1].fails += 2
    assert daemons.fail_opens() == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--control", "cubic,vegas"], "'vegas'"),
        (["--workload", "ps"], "pattern is allreduce"),
        (["--workload", "mpi"], "mpi"),
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
    monkeypatch.setattr(control_names, "has_congestion_control", lambda name: name != "bbr")
    results = small.with_name("results")
    for command in (["jobs", str(small), "--control", "cubic,bbr"], ["paper", "alone", "--out", str(results)]):
        assert cli.main(["bench", *command]) == 2
        why = "this kernel has not loaded bbr (sudo modprobe tcp_bbr)"
        assert capsys.readouterr() == ("", f"paceline: control 'bbr': {why}\n")
    assert not results.exists()


def test_where_computing_times_are_drawn_alone_takes_longer(small: Path) -> None:
    scenario = read_scenario(small)
    drawn = replace(scenario, jobs=tuple(replace(job, jitter=0.1, iterations=None) for job in scenario.jobs))
    drawn = replace(drawn, duration_s=5.0)
    few, many = (
        [
            run.scenario.jobs[0].iterations
            for run in plan(one, [TcpControl("cubic")], Conditions("synthetic", 1), 1)
            if run.alone
        ]
        for one in (scenario, drawn)
    )
    assert all(iterations <= ALONE_ITERATIONS for iterations in few)
    assert all(iterations > 5 * ALONE_ITERATIONS for iterations in many)


def test_without_a_choice_what_the_kernel_lacks_is_left_out_and_said(
    small: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(control_names, "has_congestion_control", lambda name: name != "bbr")
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


def test_a_run_that_fails_is_made_again_and_said(
    small: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def first_fails(*arguments: Any) -> JobsRun:
        run = pretended(*arguments)
        if len(pretended.made) == 1:
            raise RunFailed("a worker on h0 failed")
        return run

    monkeypatch.setattr(jobs_cases, "run_once", first_fails)
    command = ["bench", "jobs", str(small), "--control", "reno,mlcc", "--repeat", "2"]
    assert cli.main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["failed_runs"] == ["small, a alone: a worker on h0 failed"]
    assert pretended.made == ["cubic"] * 3 + ["reno", "mlcc"] + ["cubic"] * 2 + ["mlcc", "reno"]
    assert [(control["control"], len(control["runs"])) for control in report["controls"]] == [("reno", 2), ("mlcc", 2)]
    pretended.made.clear()
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

        def fork_server() -> list[int]:
            """With its forks."""
            found = []
            for pid, of in marked_processes():
                with suppress(OSError):  # ended while we looked
                    if of == mark and "bench.jobs.fork_server" in Path(f"/proc/{pid}/cmdline").read_text():
                        found.append(pid)
            return found

        started = wait_until(lambda: len(fork_server()) >= least)
        pids = fork_server()
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

        def ours() -> dict[int, str]:
            """A guardian inherits no environment, but is told where the journal is."""
            said: dict[int, str] = {}
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):  # ended while we looked
                    said[int(path.parent.name)] = path.read_text()
            marked = {pid for pid, of in marked_processes() if of == mark}
            return {pid: words for pid, words in said.items() if pid in marked or mark in words}

        def all_started() -> bool:
            words = " ".join(ours().values())
            return all(name in words for name in ("bench.jobs.fork_server", "bench.stalls", "switchd", "guardian"))

        started = wait_until(all_started)
        pids = ours()
        owner.send_signal(signal.SIGKILL)
    assert started
    assert wait_until(lambda: not any(map(alive, pids)))
    assert cli.main(["bench", "clean"]) == 0
    assert remove_leftovers().directories == ()


@pytest.mark.parametrize("path", MIXES, ids=lambda path: path.stem)
def test_the_scenarios_of_the_testbed_are_for_a_small_machine(path: Path) -> None:
    scenario = read_scenario(path)
    assert scenario.duration_s is not None
    assert scenario.duration_s <= 30
    assert all(link.capacity_bps <= 1e9 for link in scenario.topology.links.values())
    assert len(plan(replace(scenario), [TcpControl("cubic")], Conditions("auto", 1), 1)) == len(scenario.jobs) + 1


def test_there_are_the_five_mixes_and_three_more() -> None:
    assert [path.stem for path in MIXES] == [
        "identical", "mix-1", "mix-2", "mix-3", "mix-4", "mix-5", "ps-and-ring", "two-tors",
    ]  # fmt: skip

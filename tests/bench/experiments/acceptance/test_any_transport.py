"""What the check of gate and throttle makes of its runs (made up here), and of wrong arguments."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.experiments.acceptance.any_transport import GATE, THROTTLE, cases_of, judge, pair_of
from bench.jobs.control import DaemonCpu
from bench.jobs.run import JobsRun
from paceline.sim.jobs import TrainingJob

ROOT = Path(__file__).parents[4]
PAIR = pair_of("nccl", 1.0)
COUNT = 40


def run(control: str, jobs: int, iteration_s: float) -> JobsRun:
    scenario = PAIR.scenario(60.0)
    made = [TrainingJob(spec, 1) for spec in scenario.jobs[:jobs]]
    for job in made:
        job.iteration_ends_ns = [round(iteration_s * 1e9 * number) for number in range(1, COUNT + 1)]
    return JobsRun(control, tuple(made), round(iteration_s * 1e9 * COUNT), {}, (), DaemonCpu())


def judged(gate: float = 1.02, throttle: float = 1.03, armed: float = 1.005) -> dict[str, object]:
    together = {"cubic": [run("cubic", 2, 1.3)], GATE: [run(GATE, 2, gate)], THROTTLE: [run(THROTTLE, 2, throttle)]}
    alone = {"cubic": [run("cubic", 1, 1.0)], GATE: [run(GATE, 1, armed)], THROTTLE: [run(THROTTLE, 1, 1.01)]}
    return judge(PAIR, together, alone)


def test_limits_are_of_gate_and_throttle_alone_and_together() -> None:
    good = judged()
    assert good["pass"] and good["late_slowdown"] == pytest.approx({"cubic": 1.3, GATE: 1.02, THROTTLE: 1.03})
    assert good["alone_slower_percent"] == pytest.approx({GATE: 0.5, THROTTLE: 1.0})
    assert not judged(gate=1.09)["pass"] and not judged(throttle=1.07)["pass"] and not judged(armed=1.012)["pass"]


def test_a_job_is_alone_without_daemons_and_under_each_control_that_may_cost_it_something() -> None:
    alone, together = cases_of(PAIR, 10.0, ("cubic", "paceline", GATE, THROTTLE, "observe-throttle"))
    assert alone.controls == ("cubic", GATE, THROTTLE, "observe-throttle")
    assert together.controls == ("cubic", "paceline", GATE, THROTTLE)
    assert replace(together.scenario.jobs[0], name="") == replace(together.scenario.jobs[1], name="")


def test_wrong_arguments_are_one_line() -> None:
    command = [sys.executable, "-m", "bench.experiments.acceptance.any_transport", "--workload", "ddp"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "--workload of nccl" in done.stderr

"""The runs of a comparison, and the scenarios that the testbed comes with."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.jobs.plan import ALONE_ITERATIONS, plan
from bench.jobs.run import Conditions
from bench.jobs.tcp_control import TCP, TcpControl
from paceline.sim.scenario_file import read_scenario

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


def test_where_iterations_differ_by_themselves_alone_takes_longer(small: Path) -> None:
    scenario = read_scenario(small)
    scenario = replace(scenario, jobs=tuple(replace(job, iterations=None) for job in scenario.jobs), duration_s=5.0)
    planned = plan(scenario, [TcpControl("cubic")], Conditions("b=checkpoint", 1), 1)
    even, uneven = (run.scenario.jobs[0].iterations or 0 for run in planned if run.alone)
    assert even == ALONE_ITERATIONS < uneven / 5


@pytest.mark.parametrize("path", MIXES, ids=lambda path: path.stem)
def test_the_scenarios_of_the_testbed_are_for_a_small_machine(path: Path) -> None:
    scenario = read_scenario(path)
    assert scenario.duration_s is not None
    assert scenario.duration_s <= 30
    assert all(link.capacity_bps <= 1e9 for link in scenario.topology.links.values())
    assert len(plan(replace(scenario), [TcpControl("cubic")], Conditions("auto", 1), 1)) == len(scenario.jobs) + 1


def test_there_are_the_five_mixes_and_seven_more() -> None:
    assert [path.stem for path in MIXES] == [
        "identical", "mix-1", "mix-2-others", "mix-2", "mix-3", "mix-4-others", "mix-4", "mix-5", "ps-and-ring",
        "two-tors", "unlike", "weights",
    ]  # fmt: skip

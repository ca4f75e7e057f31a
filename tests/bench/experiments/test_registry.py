"""Every experiment from its runs to its tables and figures, with fake runs; see tests/commands/bench/test_paper.py."""

import json

import pytest

from bench.experiments.experiment import CONTROLS, Experiment, Options
from bench.experiments.registry import EXPERIMENTS
from bench.jobs.tcp_control import TCP
from bench.report.parts import Table
from tests.bench.conftest import FakeRuns

JOBLESS = ("rate", "delay", "jct-simulated")  # on the testbed


@pytest.mark.usefixtures("fake_measurements")
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_result_is_json_and_can_be_shown(name: str, quick: bool, fake_runs: FakeRuns) -> None:
    experiment, reached = EXPERIMENTS[name], []
    options = Options(quick, repeats=2, progress=lambda doing, part: reached.append(part))
    result = json.loads(json.dumps(experiment.run(options), allow_nan=False))
    parts = experiment.present(result)
    assert parts
    assert all(0 <= part <= 1 for part in reached)
    assert set(experiment.here(result)) <= set(experiment.paper)
    for check in result.get("checks", ()):
        assert check.keys() == {"claim", "found", "passed"}
    if name not in JOBLESS:
        assert reached
        assert fake_runs.made


@pytest.mark.usefixtures("fake_runs", "fake_measurements")
@pytest.mark.parametrize("name", [name for name, experiment in EXPERIMENTS.items() if experiment.paper])
def test_what_was_found_stands_beside_the_paper(name: str) -> None:
    experiment = EXPERIMENTS[name]
    found = experiment.here(experiment.run(Options(quick=True)))
    assert found and all("nan" not in said for said in found.values())


def test_the_fake_findings_are_said_in_numbers(fake_runs: FakeRuns, fake_measurements: None) -> None:
    said = {name: " ".join(one.here(one.run(Options(quick=True))).values()) for name, one in EXPERIMENTS.items()}
    assert "0.50 % (htb, 1 flow)" in said["rate"]
    assert "cubic 1.312" in said["turns"] and "paceline 1.137" in said["turns"]  # 1.5 and 1.3 to one another
    assert "13.3 % (mix-1)" in said["mixes"]  # 1.3 against 1.5
    assert f"{100 * 1.5 / 1.3:.1f} %" in said["friendly"]  # the same bytes, and a run lasts as long as the job


@pytest.mark.parametrize("name", ["loss", "slots", "mixes", "alone", "friendly"])
def test_tables_have_intervals_where_runs_were_repeated(name: str, fake_runs: FakeRuns) -> None:
    def tables(repeats: int) -> list[Table]:
        experiment = EXPERIMENTS[name]
        result = json.loads(json.dumps(experiment.run(Options(quick=True, repeats=repeats))))
        return [part for part in experiment.present(result) if isinstance(part, Table)]

    def intervals(table: Table) -> int:
        return sum(" ± 0.0" in cell for row in table.rows for cell in row)

    assert all(intervals(table) >= len(table.rows) for table in tables(2) if "in step" not in table.title)
    assert not any(map(intervals, tables(1)))


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in (*JOBLESS, "slots", "overhead")])
def test_an_experiment_with_jobs_tries_all_controls(name: str, fake_runs: FakeRuns) -> None:
    experiment = EXPERIMENTS[name]
    experiment.run(experiment.effective_options(Options(quick=True)))
    assert set(fake_runs.made) == {*CONTROLS, *experiment.more_controls} >= set(TCP)


@pytest.mark.usefixtures("fake_measurements")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_does_what_it_says_it_does(name: str, fake_runs: FakeRuns) -> None:
    experiment = EXPERIMENTS[name]
    does = experiment.effective_options(Options(quick=True, repeats=2, controls=(*CONTROLS, "observe")))
    once = experiment.effective_options(Options(quick=True, repeats=1, controls=(*CONTROLS, "observe")))
    experiment.run(does)
    made = list(fake_runs.made)
    fake_runs.made.clear()
    experiment.run(once)
    assert {*made} == {*fake_runs.made} == {*does.controls}
    assert len(made) == does.repeats * len(fake_runs.made)


def test_the_fake_gains_come_out_as_such(fake_runs: FakeRuns) -> None:
    def kept(name: str, quick: bool = True) -> dict[str, bool | None]:
        experiment = EXPERIMENTS[name]
        checks = experiment.run(experiment.effective_options(Options(quick)))["checks"]
        return {check["claim"]: check["passed"] for check in checks}

    assert all(kept("loss").values())  # the fake paceline loses nothing
    assert all(kept("alone").values())
    assert kept("mixes")["mix-1, steady state: at least 5 % below the best TCP"] is True  # 1.3 against 1.5
    assert list(kept("jct", quick=False).values()) == [True, True, False, True]  # 13 % where the paper has 15
    jct = EXPERIMENTS["jct"]
    chosen = jct.run(jct.effective_options(Options(cases=("25", "no case of its"))))
    assert {row["case"] for row in chosen["rows"]} == {"25 Gbit/s"}


def test_experiments_are_named_once_and_described() -> None:
    assert len(EXPERIMENTS) == 13
    for name, experiment in EXPERIMENTS.items():
        assert isinstance(experiment, Experiment)
        assert name == experiment.name
        assert experiment.shows.split()[0] in ("whether", "how", "which", "what")
    assert sum((experiment.repeats or 1) >= 5 for experiment in EXPERIMENTS.values()) == 5  # promises on jobs

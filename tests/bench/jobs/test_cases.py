"""The order of runs, going on after an interruption, and runs that fail."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.paper_jobs import cluster, host_names, job
from bench.jobs import cases as jobs_cases
from bench.jobs.cases import ATTEMPTS, STALLED_PERCENT, STOOD_STILL_S, Case, TickGaps, iteration_s, make_runs
from bench.jobs.process_group import RunFailed
from bench.jobs.run import Conditions
from bench.jobs.run_store import RunStore
from bench.testbed.impair import UNIMPAIRED, Impairment
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.jobs import TrainingJob
from tests.bench.conftest import ALONE, FACTORS, FakeRuns

pytestmark = pytest.mark.root

CONTROLS = ("reno", "cubic", "paceline")


def scenario() -> Scenario:
    return cluster("pair", 25.0, [job(name, "VGG19", host_names()[:3]) for name in ("a", "b")], duration_s=5.0)


def case(alone: bool = True) -> Case:
    return Case("pair", scenario(), CONTROLS, Conditions("synthetic", 1), alone)


def test_a_repeat_makes_every_run_before_the_next_begins(fake_runs: FakeRuns) -> None:
    second = replace(case(alone=False), name="other", scenario=replace(scenario(), seed=2))
    made = make_runs([case(alone=False), second], 2, RunStore())
    assert fake_runs.made == ["reno", "cubic", "paceline"] * 2 + ["cubic", "paceline", "reno"] * 2
    for runs in made.values():
        assert list(runs.together) == list(CONTROLS)
        assert all(len(of_control) == 2 for of_control in runs.together.values())


def test_slowdowns_are_against_the_measured_alone(fake_runs: FakeRuns) -> None:
    measured = make_runs([case()], 1, RunStore())["pair"].measurement()
    assert measured.alone_s == pytest.approx(dict.fromkeys("ab", 0.35 * ALONE))
    assert measured.runs["paceline"][0].jobs[0].iteration_ends_ns[0] == pytest.approx(0.35e9 * FACTORS["paceline"])


def test_a_job_alone_loses_nothing_and_sends_packets_as_the_runs_together(
    fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    under: dict[str, set[Impairment]] = {"alone": set(), "together": set()}

    def noted(scenario: Scenario, control: Any, conditions: Conditions, *rest: Any) -> Any:
        under["alone" if len(scenario.jobs) == 1 else "together"].add(conditions.impairment)
        return fake_runs(scenario, control, conditions, *rest)

    monkeypatch.setattr(jobs_cases, "run_once", noted)
    for impairment in (UNIMPAIRED, Impairment(loss=0.01, marks=0.1)):
        for own in under.values():
            own.clear()
        make_runs([replace(case(), conditions=Conditions("synthetic", 1, impairment))], 1, RunStore())
        assert under["together"] == {impairment}
        assert under["alone"] == {Impairment(single_packets=impairment.one_by_one)}


def test_an_interrupted_experiment_goes_on_where_it_was(
    fake_runs: FakeRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.jsonl"

    def interrupted(*arguments: object) -> object:
        if len(fake_runs.made) == 3:
            raise KeyboardInterrupt
        return fake_runs(*arguments)

    monkeypatch.setattr(jobs_cases, "run_once", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_runs([case()], 1, RunStore(path))
    monkeypatch.setattr(jobs_cases, "run_once", fake_runs)
    resumed = make_runs([case()], 1, RunStore(path))["pair"]
    assert len(fake_runs.made) == 5  # two alone, three controls: none twice
    whole = make_runs([case()], 1, RunStore())["pair"]
    assert [run.jobs[0].iteration_ends_ns for run in resumed.together["cubic"]] == [
        run.jobs[0].iteration_ends_ns for run in whole.together["cubic"]
    ]


def test_more_repeats_make_only_those_that_are_missing(fake_runs: FakeRuns, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    make_runs([case()], 1, RunStore(path))
    make_runs([case()], 2, RunStore(path))
    assert len(fake_runs.made) == 10


def test_another_scenario_is_another_run(fake_runs: FakeRuns, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    make_runs([case()], 1, RunStore(path))
    changed = replace(case(), scenario=replace(scenario(), duration_s=6.0))
    make_runs([changed], 1, RunStore(path))
    assert len(fake_runs.made) == 10 - 2  # alone a job runs for ten iterations, whatever the duration


def test_a_run_that_fails_is_made_again_and_reported(fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([RunFailed("a worker on h0 failed"), None])

    def sometimes(*arguments: object) -> object:
        if (failure := next(failures, None)) is not None:
            raise failure
        return fake_runs(*arguments)

    monkeypatch.setattr(jobs_cases, "run_once", sometimes)
    store = RunStore()
    make_runs([case(alone=False)], 1, store)
    assert store.failures == ["pair, reno: a worker on h0 failed"]


def test_a_run_that_always_fails_ends_the_experiment(fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> object:
        raise RunFailed("no")

    monkeypatch.setattr(jobs_cases, "run_once", never)
    store = RunStore()
    with pytest.raises(RunFailed):
        make_runs([case()], 1, store)
    assert len(store.failures) == ATTEMPTS


def test_a_machine_that_stood_still_is_seen_in_the_gaps_between_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = iter([0.0, 0.2, 3.2, 3.4])
    monkeypatch.setattr(jobs_cases, "monotonic", lambda: next(times_s))
    gaps = TickGaps(lambda: None)
    for _ in range(4):
        gaps.tick()
    assert gaps.longest_s == pytest.approx(3.0)


def test_a_run_during_which_the_machine_stood_still_is_made_again(
    fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s = 0.0

    def first_one_stands_still(scenario: Any, control: Any, conditions: Any, fork_server: Any, tick: Any) -> Any:
        nonlocal clock_s
        tick()
        clock_s += STOOD_STILL_S + 1 if not fake_runs.made else 0.2
        return fake_runs(scenario, control, conditions, fork_server, tick)

    monkeypatch.setattr(jobs_cases, "monotonic", lambda: clock_s)
    monkeypatch.setattr(jobs_cases, "run_once", first_one_stands_still)
    store = RunStore()
    make_runs([case(alone=False)], 1, store)
    assert store.failures == ["pair, reno: the machine stood still for 2.0 s"]
    assert fake_runs.made == ["reno", "reno", "cubic", "paceline"]


def test_a_run_during_which_the_machine_stalled_a_lot_is_made_again(
    fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    percents = iter([STALLED_PERCENT + 1, 0.0, STALLED_PERCENT, None])

    def stalling(*arguments: Any) -> Any:
        return replace(fake_runs(*arguments), stalled_percent=next(percents))

    monkeypatch.setattr(jobs_cases, "run_once", stalling)
    store = RunStore()
    make_runs([case(alone=False)], 1, store)
    assert store.failures == ["pair, reno: the machine stalled for 11 % of the time"]
    assert fake_runs.made == ["reno", "reno", "cubic", "paceline"]


def test_on_a_machine_that_always_stalls_the_last_attempt_is_kept_and_reported(
    fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    percents = iter([50.0] * ATTEMPTS + [0.0] * 2)

    def stalling(*arguments: Any) -> Any:
        return replace(fake_runs(*arguments), stalled_percent=next(percents))

    monkeypatch.setattr(jobs_cases, "run_once", stalling)
    path = tmp_path / "runs.jsonl"
    store = RunStore(path)
    made = make_runs([case(alone=False)], 1, store)["pair"]
    assert fake_runs.made == ["reno"] * ATTEMPTS + ["cubic", "paceline"]
    assert len(made.together["reno"]) == 1
    assert len(store.failures) == ATTEMPTS - 1
    again = RunStore(path)
    make_runs([case(alone=False)], 1, again)
    assert fake_runs.made[ATTEMPTS + 2 :] == []
    assert store.disturbances == ["pair, reno: the machine stalled for 50 % of the time"] == again.disturbances


def test_the_time_of_a_run_is_stored(fake_runs: FakeRuns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock_s = 0.0

    def slow(*arguments: Any) -> Any:
        nonlocal clock_s
        run = fake_runs(*arguments)
        clock_s += 7.0
        if len(fake_runs.made) == 1:
            raise RunFailed("a worker on h0 failed")
        return run

    monkeypatch.setattr(jobs_cases, "monotonic", lambda: clock_s)
    monkeypatch.setattr(jobs_cases, "run_once", slow)
    path = tmp_path / "runs.jsonl"
    make_runs([case(alone=False)], 1, RunStore(path))
    again = RunStore(path)
    make_runs([case(alone=False)], 1, again)
    assert again.earlier_s == 7.0 * (1 + len(CONTROLS))


def test_a_job_that_got_stuck_counts_with_the_time_it_has_had() -> None:
    spec = replace(scenario().jobs[0], iterations=None)
    stuck = TrainingJob(spec, 1)
    stuck.iteration_ends_ns = [round(number * 1e9) for number in range(1, 7)]
    assert iteration_s(stuck, round(6.5e9)) == pytest.approx(1.0)
    assert iteration_s(stuck, round(43e9)) == pytest.approx(10.0)

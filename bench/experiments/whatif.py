"""Whether `paceline whatif` is right: jobs are watched in observe mode, and then run under enforce.

    predicted     1 − s(simulated under paceline) / s(measured by hostd, against its own estimate of alone)
    measured      1 − s(enforce) / s(observe), both against each job alone, as every measurement of the testbed

Runs take turns, and every repeat has a prediction of its own: from the records that the hostds of that run answered
with before it ended.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.jobs.cases import Case, CaseRuns, Progress, make_runs
from bench.jobs.control import Control, DaemonCpu
from bench.jobs.daemon_control import Daemons
from bench.jobs.report import Estimate, steady_slowdown
from bench.jobs.run import Conditions
from bench.jobs.run_store import RunStore
from bench.testbed.network import Testbed
from hostd.introspect.control import ask
from paceline.flowcore.model.scenario import Scenario
from paceline.whatif.measured import measured_cluster
from paceline.whatif.prediction import JobPrediction, Prediction, predict
from paceline.whatif.record import parse_record

OBSERVE, ENFORCE = "observe", "paceline"
WITHIN_POINTS = 4.0

Result = dict[str, Any]  # JSON


class ProfiledControl:
    """Daemons that are asked at the end what they have learned."""

    def __init__(self, control: Control) -> None:
        self.name, self.congestion_control = control.name, control.congestion_control
        self._control = control
        self._records: list[Result] = []

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator["ProfiledDaemons"]:
        with self._control.running(testbed, scenario, directory) as daemons:
            assert isinstance(daemons, Daemons)
            yield ProfiledDaemons(daemons, self._records)

    def observations(self) -> list[Result]:
        return self._records


class ProfiledDaemons:
    def __init__(self, daemons: Daemons, records: list[Result]) -> None:
        self._daemons, self._records = daemons, records

    def begin(self) -> None:
        self._daemons.begin()

    def cpu(self) -> DaemonCpu:
        return self._daemons.cpu()

    def fail_opens(self) -> int:
        """Asked for when the jobs have run for long enough, and while they are still there."""
        self._records[:] = [ask(host.place / "control.sock", "profiles") for host in self._daemons.hosts]
        return self._daemons.fail_opens()


def cases(scenarios: Sequence[Scenario], workload: str, seed: int | None = None) -> list[Case]:
    return [
        Case(
            scenario.name,
            scenario,
            (OBSERVE, ENFORCE),
            Conditions(workload, scenario.seed if seed is None else seed),
            observer=ProfiledControl,
        )
        for scenario in scenarios
    ]


def compare(
    scenarios: Sequence[Scenario],
    workload: str,
    repeats: int,
    store: RunStore,
    progress: Progress = lambda doing, part: None,
    seed: int | None = None,
) -> list[Result]:
    made = make_runs(cases(scenarios, workload, seed), repeats, store, progress)
    return [_compared(made[scenario.name]) for scenario in scenarios]


def _compared(runs: CaseRuns) -> Result:
    measured = runs.measurement()
    now, enforced = (steady_slowdown(measured, control) for control in (OBSERVE, ENFORCE))
    gain = 1 - enforced.mean / now.mean
    predictions = [
        predict(measured_cluster([parse_record(found, "hostd") for found in records]), seed=number + 1)
        for number, records in enumerate(runs.observations[OBSERVE])
    ]
    predicted = Estimate.of([one.gain for one in predictions])
    stalled = [run.stalled_percent for them in measured.runs.values() for run in them]
    known = [percent for percent in stalled if percent is not None]
    return {
        "scenario": measured.scenario.name,
        "repeats": len(predictions),
        "predicted_gain_percent": 100 * predicted.mean,
        "predicted_gain_percent_each": [100 * one.gain for one in predictions],
        "measured_gain_percent": 100 * gain,
        "difference_points": 100 * (predicted.mean - gain),
        "holds": abs(100 * (predicted.mean - gain)) <= WITHIN_POINTS,
        "slowdown_observe": now.mean,
        "slowdown_observe_95": now.interval(),
        "slowdown_enforce": enforced.mean,
        "slowdown_enforce_95": enforced.interval(),
        "slowdown_observe_by_hostd": fmean(one.mean_now for one in predictions),
        "slowdown_enforce_predicted": fmean(one.mean_expected for one in predictions),
        "jobs": [
            {
                "name": name,
                "alone_s": alone_s,
                "alone_s_by_hostd": fmean(_of(one, name).job.alone_s for one in predictions),
                "computing_s": fmean(_of(one, name).job.spec.compute_s for one in predictions),
                "slowdown_now_by_hostd": fmean(_of(one, name).slowdown_now for one in predictions),
                "slowdown_fair_simulated": fmean(_of(one, name).slowdown_fair for one in predictions),
                "slowdown_enforce_predicted": fmean(_of(one, name).slowdown_expected for one in predictions),
            }
            for name, alone_s in measured.alone_s.items()
        ],
        "machine_stalled_percent": fmean(known) if known else None,
    }


def _of(prediction: Prediction, name: str) -> JobPrediction:
    return next(one for one in prediction.jobs if one.job.spec.name == name)

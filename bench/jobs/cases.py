"""The runs of a comparison: every case under every control, as often as asked, in an order that is fair to all.

The machine drifts, so a repeat makes every run once before the next repeat begins, and controls take turns in going
first: runs that are compared were made within minutes. A run that fails is recorded and made again, a few times; so
is a run during which the machine stood still or stalled a lot, which is judged by clocks of our own and not by the
result. On a machine that always stalls the last attempt is kept, and the result says so.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from statistics import fmean
from time import monotonic
from typing import Protocol

from bench.jobs.control import Control
from bench.jobs.control_names import control_named
from bench.jobs.daemons import DaemonFailed
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.plan import PlannedRun, plan
from bench.jobs.process_group import RunFailed
from bench.jobs.queued_run import run_queued
from bench.jobs.run import Conditions, JobsRun, run_once
from bench.jobs.run_store import Observations, RunStore, run_key
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.capacity_bound import CapacityBound, capacity_bound
from paceline.sim.jobs import TrainingJob
from paceline.sim.run import WARM_UP_ITERATIONS, link_shares, mean_iteration_s

ATTEMPTS = 3
STOOD_STILL_S = 1.0  # between two ticks, which come several times a second
STALLED_PERCENT = 10.0  # of the cores' time (bench/stalls.py)

Progress = Callable[[str, float], None]  # what is being done, and which part of all is done, 0 to 1


class Observer(Control, Protocol):
    """A control that takes notes while it is in force."""

    def observations(self) -> Observations: ...


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    scenario: Scenario
    controls: tuple[str, ...]
    conditions: Conditions
    alone: bool = True  # every job also alone, for comparison
    observer: Callable[[Control], Observer] | None = None
    side_by_side: bool = False  # its runs need so little of the machine that others may be made at the same time


@dataclass(frozen=True, slots=True)
class Measurement:
    scenario: Scenario
    conditions: Conditions
    alone_s: Mapping[str, float]  # mean over the repeats
    bound: CapacityBound
    runs: Mapping[str, Sequence[JobsRun]]  # by control, in the order of the repeats


@dataclass(slots=True)
class CaseRuns:
    """By control or job, in the order of the repeats."""

    case: Case
    together: dict[str, list[JobsRun]] = field(default_factory=dict)
    alone: dict[str, list[JobsRun]] = field(default_factory=dict)
    observations: dict[str, list[Observations]] = field(default_factory=dict)

    def measurement(self) -> Measurement:
        alone_s = {
            job: fmean(mean_iteration_s(run.jobs[0], run.lasted_ns) for run in runs) for job, runs in self.alone.items()
        }
        scenario = self.case.scenario
        bound = capacity_bound([link_shares(job, scenario, alone_s[job.name]) for job in scenario.jobs])
        return Measurement(scenario, self.case.conditions, alone_s, bound, self.together)

    def add(self, planned: PlannedRun, run: JobsRun, observations: Observations) -> None:
        if planned.alone is not None:
            self.alone.setdefault(planned.alone, []).append(run)
        else:
            self.together.setdefault(planned.control.name, []).append(run)
            self.observations.setdefault(planned.control.name, []).append(observations)


def iteration_s(job: TrainingJob, lasted_ns: int) -> float:
    """Mean after the warm-up. An iteration that was still going on at the end counts where it is longer than that."""
    finished_s = mean_iteration_s(job, lasted_ns)
    if job.finished or len(job.iteration_ends_ns) <= WARM_UP_ITERATIONS:
        return finished_s
    steady_s = (lasted_ns - job.iteration_ends_ns[WARM_UP_ITERATIONS - 1]) / 1e9
    return max(finished_s, steady_s / (len(job.iteration_ends_ns) - WARM_UP_ITERATIONS + 1))


@dataclass(frozen=True, slots=True)
class Share:
    """Of the runs that may be made side by side, every `of`-th beginning with `number`: one process's part of them."""

    number: int
    of: int


class ShareMade(Exception):
    """A process has made its share of the runs: the result is for the process that has them all."""


def make_share(cases: Sequence[Case], repeats: int, store: RunStore, progress: Progress, share: Share) -> None:
    """Stores the runs of the share; raises ShareMade."""
    ordered = [entry for entry in _order(cases, repeats) if entry[1].side_by_side]
    _make_all(cases, ordered[share.number :: share.of], store, progress)
    raise ShareMade


def make_runs(
    cases: Sequence[Case], repeats: int, store: RunStore, progress: Progress = lambda doing, part: None
) -> dict[str, CaseRuns]:
    """By the case's name. Runs that the store has are taken from there."""
    made = _make_all(cases, _order(cases, repeats), store, progress)
    for runs in made.values():  # in the order asked for, whatever control went first
        runs.together = {control: runs.together[control] for control in runs.case.controls}
    return made


def _make_all(
    cases: Sequence[Case], ordered: Sequence[tuple[int, Case, PlannedRun]], store: RunStore, progress: Progress
) -> dict[str, CaseRuns]:
    made = {case.name: CaseRuns(case) for case in cases}
    total_s = sum(planned.estimate_s for _, _, planned in ordered)
    done_s = 0.0
    with ExitStack() as stack:
        fork_server: ForkServer | None = None
        for number, (repeat, case, planned) in enumerate(ordered, start=1):
            what = f"{case.name}, {planned.alone + ' alone' if planned.alone else planned.control.name}"
            key = run_key(planned.scenario, planned.conditions, planned.control.name, repeat)
            found = store.find(key, planned.scenario, case.conditions.seed)
            if found is None:
                if fork_server is None:  # it may have torch to import
                    fork_server = stack.enter_context(_fork_server(cases))
                doing, began_s = f"run {number} of {len(ordered)}: {what}", monotonic()

                def tick() -> None:
                    now_s = done_s + min(planned.estimate_s, monotonic() - began_s)  # noqa: B023 - called at once
                    progress(doing, now_s / total_s)  # noqa: B023

                tick()
                found = _make(case, planned, fork_server, store, key, what, tick)
            done_s += planned.estimate_s
            made[case.name].add(planned, *found)
    return made


def _order(cases: Sequence[Case], repeats: int) -> list[tuple[int, Case, PlannedRun]]:
    ordered = []
    for case in cases:
        controls = [control_named(name) for name in case.controls]
        runs = plan(case.scenario, controls, case.conditions, repeats)
        size = len(runs) // repeats
        for place, run in enumerate(runs):
            if case.alone or run.alone is None:
                ordered.append((place // size, case, run))
    return sorted(ordered, key=lambda entry: entry[0])  # stable: within a repeat as planned


def _fork_server(cases: Sequence[Case]) -> ForkServer:
    modules = {module for case in cases for module in modules_for(case.scenario, case.conditions.workload)}
    return ForkServer(sorted(modules), fork_server_environment())


def _make(
    case: Case,
    planned: PlannedRun,
    fork_server: ForkServer,
    store: RunStore,
    key: str,
    what: str,
    tick: Callable[[], None],
) -> tuple[JobsRun, Observations]:
    """Stored, as are the attempts that failed before it."""
    for attempt in count(1):
        observer = None if case.observer is None or planned.alone else case.observer(planned.control)
        gaps, began_s = TickGaps(tick), monotonic()
        try:
            run = _run(planned, observer or planned.control, fork_server, gaps.tick)
        except (RunFailed, DaemonFailed) as failure:
            store.save_failure(key, what, str(failure), monotonic() - began_s)
            if attempt == ATTEMPTS:
                raise
            continue
        took_s, disturbance = monotonic() - began_s, _stood_still(gaps) or _stalled(run)
        if disturbance is not None and attempt < ATTEMPTS:
            store.save_failure(key, what, disturbance, took_s)
            continue
        observations = observer.observations() if observer else None
        store.save(key, what, run, observations, took_s, disturbance)
        return run, observations
    raise AssertionError  # count() does not end


def _run(planned: PlannedRun, control: Control, fork_server: ForkServer, tick: Callable[[], None]) -> JobsRun:
    scenario, conditions = planned.scenario, planned.conditions
    if conditions.shared is None or planned.alone is not None:
        return run_once(scenario, control, conditions, fork_server, tick)
    return run_queued(scenario, control, conditions, conditions.shared, fork_server, tick)


class TickGaps:
    """Passes ticks on, and keeps the longest time between two of them."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._last_s: float | None = None
        self.longest_s = 0.0

    def tick(self) -> None:
        now_s = monotonic()
        if self._last_s is not None:
            self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        self._tick()


def _stood_still(gaps: TickGaps) -> str | None:
    return f"the machine stood still for {gaps.longest_s:.1f} s" if gaps.longest_s > STOOD_STILL_S else None


def _stalled(run: JobsRun) -> str | None:
    if run.stalled_percent is None or run.stalled_percent <= STALLED_PERCENT:
        return None
    return f"the machine stalled for {run.stalled_percent:.0f} % of the time"

"""The runs of a comparison: every case under every control, as often as asked, in an order that is fair to all.

The machine drifts, so a repeat makes every run once before the next repeat begins, and controls take turns in going
first: what is compared was measured within minutes. A run that fails is noted and made again, a few times; so is
one during which the machine stood still or stalled a lot, which we notice by our own clocks and not by the result. On
a machine that always stalls the last attempt is kept, and the result says so.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from statistics import fmean
from time import monotonic
from typing import Protocol

from bench.jobs.control import Control, control_named
from bench.jobs.daemons import DaemonFailed
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.plan import Planned, plan
from bench.jobs.process_group import RunFailed
from bench.jobs.run import Conditions, Run, run_once
from bench.jobs.run_store import Notebook, Seen, run_key
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.capacity_bound import CapacityBound, capacity_bound
from paceline.sim.jobs import TrainingJob
from paceline.sim.run import WARM_UP_ITERATIONS, link_shares, mean_iteration_s

ATTEMPTS = 3
STOOD_STILL_S = 1.0  # we look up several times a second
STALLED_PERCENT = 10.0  # of the cores' time (bench/stalls.py)

Progress = Callable[[str, float], None]  # what is being done, and which part of all is done, 0 to 1


class Observer(Control, Protocol):
    """A control that takes notes while it is in force."""

    def seen(self) -> Seen: ...


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    scenario: Scenario
    controls: tuple[str, ...]
    conditions: Conditions
    alone: bool = True  # every job also alone, for comparison
    observer: Callable[[Control], Observer] | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    scenario: Scenario
    conditions: Conditions
    alone_s: Mapping[str, float]  # mean over the repeats
    bound: CapacityBound
    runs: Mapping[str, Sequence[Run]]  # by control, in the order of the repeats


@dataclass(slots=True)
class Runs:
    """Of one case, by control or job, in the order of the repeats."""

    case: Case
    together: dict[str, list[Run]] = field(default_factory=dict)
    alone: dict[str, list[Run]] = field(default_factory=dict)
    seen: dict[str, list[Seen]] = field(default_factory=dict)

    def measurement(self) -> Measurement:
        alone_s = {
            job: fmean(mean_iteration_s(run.jobs[0], run.lasted_ns) for run in runs) for job, runs in self.alone.items()
        }
        scenario = self.case.scenario
        bound = capacity_bound([link_shares(job, scenario, alone_s[job.name]) for job in scenario.jobs])
        return Measurement(scenario, self.case.conditions, alone_s, bound, self.together)


def iteration_s(job: TrainingJob, lasted_ns: int) -> float:
    """Mean after the warm-up. An iteration that was still going on at the end counts where it is longer than that."""
    finished_s = mean_iteration_s(job, lasted_ns)
    if job.finished or len(job.iteration_ends_ns) <= WARM_UP_ITERATIONS:
        return finished_s
    steady_s = (lasted_ns - job.iteration_ends_ns[WARM_UP_ITERATIONS - 1]) / 1e9
    return max(finished_s, steady_s / (len(job.iteration_ends_ns) - WARM_UP_ITERATIONS + 1))


def make_runs(
    cases: Sequence[Case], repeats: int, notebook: Notebook, progress: Progress = lambda doing, part: None
) -> dict[str, Runs]:
    """By the case's name. Runs that the notebook has are taken from there."""
    made = {case.name: Runs(case) for case in cases}
    planned = _order(cases, repeats)
    total_s = sum(run.estimate_s for _, _, run in planned)
    done_s = 0.0
    with ExitStack() as stack:
        fork_server: ForkServer | None = None
        for number, (repeat, case, run) in enumerate(planned, start=1):
            what = f"{case.name}, {run.alone + ' alone' if run.alone else run.control.name}"
            key = run_key(run.scenario, run.conditions, run.control.name, repeat)
            found = notebook.find(key, run.scenario, case.conditions.seed)
            if found is None:
                if fork_server is None:  # it may have torch to import
                    fork_server = stack.enter_context(_fork_server(cases))
                doing, began_s = f"run {number} of {len(planned)}: {what}", monotonic()

                def tick() -> None:
                    now_s = done_s + min(run.estimate_s, monotonic() - began_s)  # noqa: B023 - called at once
                    progress(doing, now_s / total_s)  # noqa: B023

                tick()
                found = _make(case, run, fork_server, notebook, key, what, tick)
            done_s += run.estimate_s
            own = made[case.name]
            if run.alone is not None:
                own.alone.setdefault(run.alone, []).append(found[0])
            else:
                own.together.setdefault(run.control.name, []).append(found[0])
                own.seen.setdefault(run.control.name, []).append(found[1])
    for own in made.values():  # turns have mixed them
        own.together = {control: own.together[control] for control in own.case.controls}
    return made


def _order(cases: Sequence[Case], repeats: int) -> list[tuple[int, Case, Planned]]:
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
    case: Case, run: Planned, fork_server: ForkServer, notebook: Notebook, key: str, what: str, tick: Callable[[], None]
) -> tuple[Run, Seen]:
    """Noted in the notebook, as is what failed before."""
    for attempt in count(1):
        observer = None if case.observer is None or run.alone else case.observer(run.control)
        clock, began_s = StillnessClock(tick), monotonic()
        try:
            made = run_once(run.scenario, observer or run.control, run.conditions, fork_server, clock.tick)
        except (RunFailed, DaemonFailed) as failure:
            notebook.keep_failure(key, what, str(failure), monotonic() - began_s)
            if attempt == ATTEMPTS:
                raise
            continue
        took_s, disturbed = monotonic() - began_s, _stood_still(clock) or _stall(made)
        if disturbed is not None and attempt < ATTEMPTS:
            notebook.keep_failure(key, what, disturbed, took_s)
            continue
        seen = observer.seen() if observer else None
        notebook.keep(key, what, made, seen, took_s, although=disturbed)
        return made, seen
    raise AssertionError  # count() does not end


def _stood_still(clock: "StillnessClock") -> str | None:
    return f"the machine stood still for {clock.longest_s:.1f} s" if clock.longest_s > STOOD_STILL_S else None


def _stall(run: Run) -> str | None:
    """What to say of a machine that stalled too much during the run."""
    if run.stalled_percent is None or run.stalled_percent <= STALLED_PERCENT:
        return None
    return f"the machine stalled for {run.stalled_percent:.0f} % of the time"


class StillnessClock:
    """The longest time between two ticks, which come several times a second."""

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

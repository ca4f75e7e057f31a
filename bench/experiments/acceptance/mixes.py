"""The comparison that decides: eight scenarios with real jobs, under every TCP and under paceline.

in step     a job is in step from the first window of five iterations whose mean is at most 1.05 × the iteration alone
            and after which at least nine of ten windows are like it: one slow iteration late in a run changes nothing
simulated   paceline's slowdown in the simulator: the same decisions, exact rates, and a machine that never stalls
"""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from statistics import fmean, median

from bench.experiments.acceptance.criteria import CRUDE, MEASURES, acceptance_checks, best_tcp
from bench.experiments.experiment import Experiment, Options, Result, as_json, percent, spread
from bench.experiments.paper_jobs import sped_up
from bench.jobs.cases import Case, CaseRuns
from bench.jobs.report import document
from bench.jobs.run import Conditions
from bench.report.parts import Bars, Part, Table
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.agreement.testbed import of_payload
from paceline.sim.run import iteration_times_s
from paceline.sim.run import run as simulate
from paceline.sim.scenario_file import read_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios/testbed"
NAMES = (*CRUDE, "identical", "ps-and-ring", "two-tors")
QUICK_NAMES = ("mix-1", "identical")
AGAINST_TCP = "mean JCT against TCP variants"
IN_STEP, IN_STEP_ITERATIONS, IN_STEP_PART = 1.05, 5, 0.9


def scenario_named(name: str) -> Scenario:
    return read_scenario(SCENARIOS / f"{name}.toml")


def run(options: Options) -> Result:
    scenarios = [scenario_named(name) for name in (QUICK_NAMES if options.quick else NAMES)]
    if options.quick:
        scenarios = [sped_up(scenario, 2.0) for scenario in scenarios]
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed)
    cases = [Case(scenario.name, scenario, options.controls, conditions) for scenario in scenarios]
    made = options.make(cases)
    measured = {name: document(runs.measurement(), 0.0) for name, runs in made.items()}
    return {
        "measured": measured,
        "simulated": {scenario.name: simulated_slowdown(scenario) for scenario in scenarios},
        "in_step_s": in_step_s(made["identical"]),
        "crude": CRUDE,
        "checks": as_json(acceptance_checks(measured)),
    }


def simulated_slowdown(scenario: Scenario) -> float:
    return simulate(of_payload(scenario), "paceline").mean_slowdown


def in_step_s(runs: CaseRuns) -> dict[str, list[float | None]]:
    """By control: when the last job of each run was in step; None: never."""
    alone_s = runs.measurement().alone_s
    found = {}
    for control, own in runs.together.items():
        times = [[_in_step_s(iteration_times_s(job), alone_s[job.spec.name]) for job in one.jobs] for one in own]
        found[control] = [_last(of_run) for of_run in times]
    return found


def _last(times_s: Sequence[float | None]) -> float | None:
    known = [time_s for time_s in times_s if time_s is not None]
    return max(known) if len(known) == len(times_s) else None


def _in_step_s(times_s: Sequence[float], alone_s: float) -> float | None:
    """Seconds after the job's start."""
    starts = range(len(times_s) - IN_STEP_ITERATIONS + 1)
    good = [fmean(times_s[start : start + IN_STEP_ITERATIONS]) <= IN_STEP * alone_s for start in starts]
    for start in starts:
        if good[start] and sum(good[start:]) >= IN_STEP_PART * len(good[start:]):
            return sum(times_s[:start])
    return None


def here(result: Result) -> dict[str, str]:
    saved = (f"{percent(_saved(measured, 'mean_slowdown'))} ({name})" for name, measured in result["measured"].items())
    return {AGAINST_TCP: f"mean slowdown below the best TCP's by {', '.join(saved)}"}


def present(result: Result) -> list[Part]:
    measured = result["measured"]
    groups, bars, controls = list(measured), {}, _controls(result)
    for control in controls:
        rows = [next(one for one in of["controls"] if one["control"] == control) for of in measured.values()]
        bars[control] = [(row["mean_slowdown"], _half_width(row["mean_slowdown_95"])) for row in rows]
    columns = ("", *controls, "simulated", "crude", "bound", "below the best TCP")
    return [
        Bars("Mean slowdown, steady state", "× alone", groups, bars, floor=1.0),
        *(Table(f"Mean slowdown, {period}", columns, _rows(result, key)) for period, key in MEASURES.items()),
        Table("identical: in step after", ("", "seconds, median", "never"), _in_step_rows(result["in_step_s"])),
    ]


def _controls(result: Result) -> list[str]:
    return list(result["in_step_s"])


def _half_width(interval: Sequence[float] | None) -> float | None:
    return None if interval is None else (interval[1] - interval[0]) / 2


def _rows(result: Result, key: str) -> list[tuple[str, ...]]:
    rows = []
    for name, measured in result["measured"].items():
        of = {control["control"]: control for control in measured["controls"]}
        shown = (spread(of[one][key], _half_width(of[one][f"{key}_95"])) for one in _controls(result))
        crude = f"{result['crude'][name]:.3f}" if name in result["crude"] else "–"
        bounds = (f"{result['simulated'][name]:.3f}", crude, f"{measured['capacity_bound']:.3f}")
        rows.append((name, *shown, *bounds, percent(_saved(measured, key))))
    return rows


def _saved(measured: Result, key: str) -> float:
    """Which part of the best TCP's slowdown paceline saves."""
    of = {control["control"]: control[key] for control in measured["controls"]}
    return float(1 - of["paceline"] / best_tcp(of))


def _in_step_rows(in_step: dict[str, list[float | None]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for control, times in in_step.items():
        middle_s = median(inf if time is None else time for time in times)
        shown = "never" if middle_s == inf else f"{middle_s:.1f}"
        rows.append((control, shown, f"{times.count(None)} of {len(times)}"))
    return rows


EXPERIMENT = Experiment(
    name="mixes",
    figure="",
    shows="whether mixes of real jobs train faster than under any TCP, and how far from the bound",
    run=run,
    present=present,
    here=here,
    paper={AGAINST_TCP: "at least 15 % lower, on its own mix of jobs"},
    differs="Two to six hosts at 1 Gbit/s, DDP over gloo and parameter servers over torch RPC; computing is a sleep.",
    repeats=5,
)

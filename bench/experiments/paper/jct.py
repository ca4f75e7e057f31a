"""Fig. 8 and Table I: mean job completion time by bandwidth, on six hosts with two GPUs each.

Jobs of all four models arrive as a Poisson process, wait for GPUs, and leave when they have done their iterations; all
of that counts. A job that is unfinished when the run is cut off counts with the time since its arrival. Three cases:
nothing else on the network, other traffic beside jobs that share with it, and beside jobs that go first.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from bench.experiments.experiment import Check, Experiment, Options, Result, as_json, percent
from bench.experiments.paper_jobs import (
    GPUS_PER_HOST,
    HOSTS,
    MODELS,
    QUIET,
    WITH_OTHERS,
    cluster,
    queued_job,
    sped_up,
)
from bench.jobs.cases import Case
from bench.jobs.queued_run import gpu_load
from bench.jobs.report import Estimate
from bench.jobs.run import Conditions, JobsRun
from bench.jobs.shared_cluster import SharedCluster
from bench.jobs.tcp_control import TCP
from bench.report.parts import Bars, Part, Table
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.run import alone_iterations_s, iteration_times_s, percentile

PAPER_GBPS = (10.0, 25.0)
JOBS, QUICK_JOBS = 30, 5
ITERATIONS, QUICK_ITERATIONS = (20, 30), (4, 8)
GPU_LOAD = 0.85  # under TCP
QUICK_CASES = ("25", "25-others")
CUT_OFF_S, QUICK_CUT_OFF_S = 900.0, 20.0  # a control may let a job starve
PAPER_GAIN = 0.15
# Both with the objective that is measured here, of jobs that say how many iterations they will do.
SOONEST, FIRST = "paceline-jct", "paceline-jct-first"
OURS = ("paceline", SOONEST, FIRST)
AGAINST_TCP = "mean JCT against reno, cubic, bbr (and DCTCP)"


@dataclass(frozen=True, slots=True)
class Surroundings:
    name: str  # a part of the case's name
    shared: SharedCluster
    stretch: float  # about how much longer than alone an iteration takes under TCP: with it the load is as meant
    gains: dict[float, dict[str, float]]  # that we promise, by bandwidth and control, beside the best TCP


QUIET_CASE = Surroundings("", QUIET, 1.3, {10.0: {SOONEST: 0.10}, 25.0: {SOONEST: 0.05}})
OTHERS_CASE = Surroundings(", other traffic", WITH_OTHERS, 1.6, {10.0: {SOONEST: 0.05, FIRST: PAPER_GAIN}, 25.0: {}})
CASES = {  # by the names that --case takes
    f"{gbps:g}{suffix}": (gbps, around)
    for gbps in PAPER_GBPS
    for suffix, around in (("", QUIET_CASE), ("-others", OTHERS_CASE))
}


def arrivals(
    gbps: float, options: Options, jobs: int = JOBS, slot_ms: float = 60.0, stretch: float = OTHERS_CASE.stretch
) -> Scenario:
    """The same jobs at every slot length; at other bandwidths the same, closer together or farther apart."""
    draws = random.Random(f"{options.seed}/arrivals")
    alone_s = alone_iterations_s(cluster("models", gbps, [queued_job(name, name, 5) for name in MODELS]), options.seed)
    names, specs, start = list(MODELS), [], 0.0
    for number in range(QUICK_JOBS if options.quick else jobs):
        model = names[number % len(names)]
        iterations = draws.randint(*(QUICK_ITERATIONS if options.quick else ITERATIONS))
        specs.append((f"{number}-{model}", model, iterations, start))
        start += draws.expovariate(1.0)
    gpu_s = fmean(len(queued_job("", model).workers) * iterations * alone_s[model] for _, model, iterations, _ in specs)
    gap_s = gpu_s * stretch / (HOSTS * GPUS_PER_HOST * GPU_LOAD)
    queued = [queued_job(name, model, iterations, at * gap_s) for name, model, iterations, at in specs]
    scenario = cluster(f"{jobs}-jobs", gbps, queued, duration_s=CUT_OFF_S, slot_ms=slot_ms)
    return sped_up(scenario, QUICK_CUT_OFF_S) if options.quick else scenario


def jct_s(runs: Sequence[JobsRun]) -> list[float]:
    """Each run's mean job completion time."""
    return [fmean(_completion_s(run)) for run in runs]


def unfinished(runs: Sequence[JobsRun]) -> int:
    """Jobs that were cut off: the means are lower bounds."""
    return sum(not one.finished for run in runs for one in run.jobs)


def _completion_s(run: JobsRun) -> list[float]:
    return [sum(iteration_times_s(one)) if one.finished else run.lasted_ns / 1e9 - one.spec.start_s for one in run.jobs]


def run(options: Options) -> Result:
    rows, checks, cases = [], [], {}
    for gbps, around in (CASES[name] for name in options.cases or (QUICK_CASES if options.quick else CASES)):
        conditions = Conditions("synthetic" if options.quick else "auto", options.seed, shared=around.shared)
        controls = tuple(one for one in options.controls if around is OTHERS_CASE or one != FIRST)
        scenario = arrivals(gbps, options, stretch=around.stretch)
        case = Case(f"{gbps:g} Gbit/s{around.name}", scenario, controls, conditions, alone=False)
        cases[gbps, around.name] = (case, around)
    made = options.make([case for case, _ in cases.values()])
    for (gbps, _), (case, around) in cases.items():
        own = [_row(case.name, control, runs) for control, runs in made[case.name].together.items()]
        promised = {control: gain for control, gain in around.gains[gbps].items() if control in case.controls}
        checks += [_check(own, case.name, control, gain) for control, gain in promised.items()]
        rows += own
    return {"rows": rows, "checks": as_json(checks)}


def _row(name: str, control: str, runs: Sequence[JobsRun]) -> Result:
    mean, every = Estimate.of(jct_s(runs)), list(chain.from_iterable(map(_completion_s, runs)))
    return {
        "case": name,
        "control": control,
        "mean_jct_s": mean.mean,
        "half_width_s": mean.half_width,
        "min_jct_s": min(every),
        "max_jct_s": max(every),
        "p99_jct_s": percentile(every, 99),
        "unfinished": unfinished(runs),
        "gpu_load": fmean(gpu_load(one, HOSTS * GPUS_PER_HOST) for one in runs),
        "others_mbps": fmean(8e3 * sum(one.cross_traffic_bytes) / one.lasted_ns for one in runs),
    }


def _check(rows: Sequence[Result], name: str, control: str, gain: float) -> Check:
    mean_s = {row["control"]: row["mean_jct_s"] for row in rows}
    best_s = min(mean_s[one] for one in TCP)
    claim = f"{name}: {control}'s mean JCT at least {percent(gain, 0)} below every TCP's"
    return Check(claim, percent(1 - mean_s[control] / best_s), mean_s[control] <= (1 - gain) * best_s)


def here(result: Result) -> dict[str, str]:
    gains = []
    for name in dict.fromkeys(row["case"] for row in result["rows"]):
        of = {row["control"]: row["mean_jct_s"] for row in result["rows"] if row["case"] == name}
        best_s = min(of[one] for one in TCP)
        gains += [f"{one} {percent(1 - of[one] / best_s)} lower at {name}" for one in OURS if one in of]
    return {AGAINST_TCP: ", ".join(gains)}


def present(result: Result) -> list[Part]:
    rows = result["rows"]
    groups = list(dict.fromkeys(row["case"] for row in rows))
    found = {(row["case"], row["control"]): (row["mean_jct_s"], row["half_width_s"]) for row in rows}
    bars = {
        control: [found.get((group, control), (0.0, None)) for group in groups]
        for control in dict.fromkeys(row["control"] for row in rows)
    }
    keys = ("mean_jct_s", "min_jct_s", "max_jct_s", "p99_jct_s")
    lines = [
        (
            f"{row['case']}, {row['control']}",
            *(f"{row[key]:.2f}" for key in keys),
            str(row["unfinished"]),
            percent(row["gpu_load"], 0),
            f"{row['others_mbps']:.0f}",
        )
        for row in rows
    ]
    columns = ("", "mean", "min", "max", "p99", "cut off", "GPUs in use", "others, Mbit/s")
    return [
        Bars("Mean job completion time", "s", groups, bars),
        Table("Job completion time, s (Table I)", columns, lines),
    ]


EXPERIMENT = Experiment(
    name="jct",
    figure="Fig. 8, Table I",
    shows="how soon jobs finish that arrive over time, among non-ML traffic",
    run=run,
    present=present,
    here=here,
    more_controls=(SOONEST, FIRST),
    cases=tuple(CASES),
    paper={
        AGAINST_TCP: "at least 15 % lower",
        "mean JCT against PCC, Aurora, DeepCC": "at least 28.9 % lower (not run here)",
    },
    differs="Poisson arrivals instead of Google's trace; computing is a sleep; 30 jobs of 20 to 30 iterations, where "
    "the paper's have about a hundred; models and bandwidths are the paper's divided by 62.5; no DCTCP in this kernel.",
)

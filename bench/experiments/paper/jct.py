"""Fig. 8 and Table I: mean job completion time by bandwidth, while jobs arrive among cross traffic.

Jobs of all four models arrive as a Poisson process, on hosts drawn at random, and leave when they have done their
iterations. A job that is unfinished when the run is cut off counts with the time since its start.
"""

import random
from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from bench.experiments.experiment import Check, Experiment, Options, Result, as_json, percent
from bench.experiments.paper_jobs import MODELS, cluster, host_names, iperf, job, random_hosts, sped_up
from bench.jobs.cases import Case
from bench.jobs.report import Estimate
from bench.jobs.run import Conditions, JobsRun
from bench.jobs.tcp_control import TCP
from bench.report.parts import Bars, Part, Table
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.run import iteration_times_s, percentile

PAPER_GBPS = (10.0, 16.0, 25.0)
JOBS = 8
MEAN_GAP_S = 2.5
ITERATIONS = (12, 24)
QUICK_JOBS = 3
CUT_OFF_S, QUICK_CUT_OFF_S = 120.0, 10.0  # a control may let a job starve
PAPER_GAIN = 0.15
AGAINST_TCP = "mean JCT against reno, cubic, bbr (and DCTCP)"


def arrivals(gbps: float, options: Options, jobs: int = JOBS, slot_ms: float = 60.0) -> Scenario:
    """The same jobs at every bandwidth and slot length."""
    draws = random.Random(f"{options.seed}/arrivals")
    names, start_s, specs = host_names(), 0.0, []
    for number in range(QUICK_JOBS if options.quick else jobs):
        model = list(MODELS)[number % len(MODELS)]
        iterations = 6 if options.quick else draws.randint(*ITERATIONS)
        specs.append(job(f"{number}-{model}", model, random_hosts(model, names, draws), iterations, start_s))
        start_s += draws.expovariate(1 / (0.3 if options.quick else MEAN_GAP_S))
    cross_traffic = iperf(gbps, draws)
    scenario = cluster(f"{jobs}-jobs", gbps, specs, duration_s=CUT_OFF_S, slot_ms=slot_ms, cross_traffic=cross_traffic)
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
    bandwidths = PAPER_GBPS[-1:] if options.quick else PAPER_GBPS
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed)
    cases = [
        Case(f"{gbps:g} Gbit/s", arrivals(gbps, options), options.controls, conditions, alone=False)
        for gbps in bandwidths
    ]
    made = options.make(cases)
    rows = [_row(case.name, control, runs) for case in cases for control, runs in made[case.name].together.items()]
    return {"rows": rows, "checks": as_json([_check(rows, case.name) for case in cases])}


def _row(bandwidth: str, control: str, runs: Sequence[JobsRun]) -> Result:
    mean, every = Estimate.of(jct_s(runs)), list(chain.from_iterable(map(_completion_s, runs)))
    return {
        "bandwidth": bandwidth,
        "control": control,
        "mean_jct_s": mean.mean,
        "half_width_s": mean.half_width,
        "min_jct_s": min(every),
        "max_jct_s": max(every),
        "p99_jct_s": percentile(every, 99),
        "unfinished": unfinished(runs),
    }


def _check(rows: Sequence[Result], bandwidth: str) -> Check:
    mean_s = {row["control"]: row["mean_jct_s"] for row in rows if row["bandwidth"] == bandwidth}
    best_s = min(mean_s[control] for control in TCP)
    claim = f"{bandwidth}: paceline's mean JCT at least {percent(PAPER_GAIN, 0)} below every TCP's, as the paper's"
    return Check(claim, percent(1 - mean_s["paceline"] / best_s), mean_s["paceline"] <= (1 - PAPER_GAIN) * best_s)


def here(result: Result) -> dict[str, str]:
    gains = []
    for bandwidth in dict.fromkeys(row["bandwidth"] for row in result["rows"]):
        of = {row["control"]: row["mean_jct_s"] for row in result["rows"] if row["bandwidth"] == bandwidth}
        gains.append(f"{percent(1 - of['paceline'] / min(of[name] for name in TCP))} lower at {bandwidth}")
    return {AGAINST_TCP: "paceline " + ", ".join(gains)}


def present(result: Result) -> list[Part]:
    rows = result["rows"]
    groups = list(dict.fromkeys(row["bandwidth"] for row in rows))
    bars = {
        control: [(row["mean_jct_s"], row["half_width_s"]) for row in rows if row["control"] == control]
        for control in dict.fromkeys(row["control"] for row in rows)
    }
    keys = ("mean_jct_s", "min_jct_s", "max_jct_s", "p99_jct_s")
    lines = [
        (f"{row['bandwidth']}, {row['control']}", *(f"{row[key]:.2f}" for key in keys), str(row["unfinished"]))
        for row in rows
    ]
    table = Table("Job completion time, s (Table I)", ("", "mean", "min", "max", "p99", "cut off"), lines)
    return [Bars("Mean job completion time", "s", groups, bars), table]


EXPERIMENT = Experiment(
    name="jct",
    figure="Fig. 8, Table I",
    shows="how soon jobs finish that arrive over time, among non-ML traffic",
    run=run,
    present=present,
    here=here,
    paper={
        AGAINST_TCP: "at least 15 % lower",
        "mean JCT against PCC, Aurora, DeepCC": "at least 28.9 % lower (not run here)",
    },
    differs="Poisson arrivals instead of Google's trace; no GPU is waited for, because computing is a sleep; "
    "8 jobs a run; bandwidths as the paper names them, divided by 62.5 here.",
)

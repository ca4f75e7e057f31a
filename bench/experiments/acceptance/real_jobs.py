"""Realistic jobs: every way of communicating in use, two jobs at a time and each alone, under every control.

    slowdown   a job's mean iteration ÷ the mean of the same iterations (by number) alone under cubic, in the same
               repeat: computing times, evaluations and pauses are the same in both, so that they do not blur it
    of a case  the mean over its jobs, then the median over the repeats
    late       the same of the second half of the iterations: jobs have found their turns by then
    best TCP   the one with the lowest slowdown of the case

A job is *not helped* in a case where its own slowdown is at least what it is under the case's best TCP.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from statistics import fmean, median

from bench.experiments.acceptance.job_suite import ALONE, Job, Pair, Suite
from bench.experiments.acceptance.real_job_cases import MUST_NOT_LOSE, SUITE
from bench.experiments.experiment import Check, Experiment, Options, Result, as_json
from bench.jobs.cases import Case, CaseRuns
from bench.jobs.run import Conditions, JobsRun
from bench.jobs.tcp_control import ALONE_CONTROL, TCP
from bench.report.parts import Bars, Part, Table
from bench.testbed.accelerator import has_gpu
from paceline.sim.jobs import TrainingJob
from paceline.sim.run import WARM_UP_ITERATIONS, iteration_times_s, mean_iteration_s, steady_times_s

OURS = "paceline"
ALONE_LIMIT_PERCENT = 1.0


def run(options: Options, suite: Suite = SUITE) -> Result:
    names = options.cases or (suite.quick if options.quick else ())
    duration_s = options.duration_s or (suite.quick_s if options.quick else suite.duration_s)
    pairs, compared_alone = suite.chosen_pairs(names), suite.chosen_alone(names)
    of_pairs = (job for pair in pairs for job in pair.jobs)
    jobs = {job.name: job for job in (*compared_alone, *of_pairs) if job.same_as is None}
    cases = [
        *(_alone_case(job, duration_s, options, job in compared_alone) for job in jobs.values()),
        *(_pair_case(pair, duration_s, options) for pair in pairs),
    ]
    made = options.make(cases)
    alone = {name: made[f"{name} {ALONE}"].together for name in jobs}
    rows = [
        _row(pair, made[pair.name], {job.name: alone[job.measured_alone][ALONE_CONTROL] for job in pair.jobs})
        for pair in pairs
    ]
    alone_rows = [_alone_row(job, alone[job.name]) for job in compared_alone]
    return {
        "duration_s": duration_s,
        "rows": rows,
        "alone": alone_rows,
        "not_helped": not_helped(rows),
        "checks": as_json(checks(rows, alone_rows)),
    }


def _alone_case(job: Job, duration_s: float, options: Options, is_compared: bool) -> Case:
    controls = (ALONE_CONTROL, OURS) if is_compared else (ALONE_CONTROL,)
    conditions = Conditions(_workload(f"{job.name}={job.workload}", options), options.seed)
    scenario = job.alone_scenario(duration_s)
    return Case(scenario.name, scenario, controls, conditions, alone=False, side_by_side=job.side_by_side)


def _pair_case(pair: Pair, duration_s: float, options: Options) -> Case:
    conditions = Conditions(_workload(pair.workload, options), options.seed)
    side_by_side = all(job.side_by_side for job in pair.jobs)
    return Case(
        pair.name, pair.scenario(duration_s), options.controls, conditions, alone=False, side_by_side=side_by_side
    )


def _workload(workload: str, options: Options) -> str:
    """--quick is to see that it works, also where there is no torch, or no GPU."""
    if not options.quick:
        return workload
    is_there = has_gpu() if "nccl" in workload else find_spec("torch") is not None
    return workload if is_there else "synthetic"


def slowdown(job: TrainingJob, lasted_ns: int, alone: TrainingJob) -> float:
    """An iteration that was still going on counts where it is longer than all others, and then alone, too."""
    alone_times_s, counted = iteration_times_s(alone), len(steady_times_s(job, lasted_ns))
    same = alone_times_s[WARM_UP_ITERATIONS : WARM_UP_ITERATIONS + counted]
    return mean_iteration_s(job, lasted_ns) / fmean(same or alone_times_s)


def _row(pair: Pair, runs: CaseRuns, alone: Mapping[str, Sequence[JobsRun]]) -> Result:
    controls = {control: _of_control(pair, own, alone) for control, own in runs.together.items()}
    best = min((control for control in controls if control in TCP), key=lambda name: controls[name]["slowdown"])
    percent = _percent(controls[OURS]["slowdown"], controls[best]["slowdown"])
    return {
        "case": pair.name,
        "placement": pair.placement,
        "jobs": [_job(job) for job in pair.jobs],
        "controls": controls,
        "best_tcp": best,
        "against_best_tcp_percent": percent,
        "limit_percent": pair.limit_percent,
        "limit_slowdown": pair.limit_slowdown,
        "holds": holds(pair, percent, controls[OURS]["late_slowdown"]),
        "jobs_against_best_tcp_percent": {
            job.name: _percent(controls[OURS]["jobs"][job.name], controls[best]["jobs"][job.name]) for job in pair.jobs
        },
        "host_cpu_percent": median(run.cpu.host_percent for run in runs.together[OURS]),
    }


def late_slowdown(job: TrainingJob, lasted_ns: int, alone: TrainingJob) -> float:
    times_s, alone_s = steady_times_s(job, lasted_ns), iteration_times_s(alone)[WARM_UP_ITERATIONS:]
    return fmean(times_s[len(times_s) // 2 :]) / fmean(alone_s[len(alone_s) // 2 :] or alone_s or times_s)


def holds(pair: Pair, percent: float, late_slowdown: float) -> bool:
    if pair.limit_percent is not None:
        return percent <= pair.limit_percent
    return pair.limit_slowdown is None or late_slowdown <= pair.limit_slowdown


def _of_control(pair: Pair, runs: Sequence[JobsRun], alone: Mapping[str, Sequence[JobsRun]]) -> Result:
    of_jobs = _by_job(slowdown, pair, runs, alone)
    of_repeats = _means(of_jobs)
    jobs = {name: median(values) for name, values in of_jobs.items()}
    late = median(_means(_by_job(late_slowdown, pair, runs, alone)))
    return {"slowdown": median(of_repeats), "late_slowdown": late, "of_repeats": of_repeats, "jobs": jobs}


def _by_job(
    measure: Callable[[TrainingJob, int, TrainingJob], float],
    pair: Pair,
    runs: Sequence[JobsRun],
    alone: Mapping[str, Sequence[JobsRun]],
) -> dict[str, list[float]]:
    """In the order of the repeats."""
    return {
        job.name: [
            measure(run.jobs[place], run.lasted_ns, by_itself.jobs[0])
            for run, by_itself in zip(runs, alone[job.name], strict=True)
        ]
        for place, job in enumerate(pair.jobs)
    }


def _means(of_jobs: Mapping[str, Sequence[float]]) -> list[float]:
    """Of the jobs, for each repeat."""
    return [fmean(of_repeat) for of_repeat in zip(*of_jobs.values(), strict=True)]


def _alone_row(job: Job, runs: Mapping[str, Sequence[JobsRun]]) -> Result:
    ratios = [
        slowdown(ours.jobs[0], ours.lasted_ns, plain.jobs[0])
        for ours, plain in zip(runs[OURS], runs[ALONE_CONTROL], strict=True)
    ]
    percent = _percent(median(ratios), 1.0)
    iteration = median(mean_iteration_s(run.jobs[0], run.lasted_ns) for run in runs[ALONE_CONTROL])
    return {
        **_job(job),
        "iteration_s": iteration,
        "communication_percent": 100 * job.link_s / iteration,
        "slower_percent": percent,
        "of_repeats_percent": [_percent(ratio, 1.0) for ratio in ratios],
        "limit_percent": ALONE_LIMIT_PERCENT,
        "holds": percent <= ALONE_LIMIT_PERCENT,
    }


def _job(job: Job) -> Result:
    return {"name": job.name, "workload": job.workload, "model_mb": job.model_mb, "compute_s": job.compute_s}


def _percent(value: float, than: float) -> float:
    return 100 * (value / than - 1)


def not_helped(rows: Sequence[Result]) -> list[Result]:
    """The jobs that are not faster than under the best TCP of their case, the worst first."""
    found = [
        {"job": name, "case": row["case"], "slower_percent": percent, "than": row["best_tcp"]}
        for row in rows
        for name, percent in row["jobs_against_best_tcp_percent"].items()
        if percent >= 0
    ]
    return sorted(found, key=lambda one: -one["slower_percent"])


def checks(rows: Sequence[Result], alone: Sequence[Result]) -> list[Check]:
    found = []
    for row in rows:
        limit, percent = row["limit_percent"], row["against_best_tcp_percent"]
        if limit is None:
            claim, value = f"late slowdown at most {row['limit_slowdown']:g}", row["controls"][OURS]["late_slowdown"]
            found.append(Check(f"{row['case']}: {claim}", f"{value:.3f}", row["holds"]))
            continue
        claim = f"at least {-limit:g} % below" if limit < 0 else f"at most {limit:g} % above"
        found.append(Check(f"{row['case']}: {claim} the best TCP", f"{percent:+.1f} %", row["holds"]))
    others = [row["against_best_tcp_percent"] for row in rows if row["limit_percent"] == MUST_NOT_LOSE]
    if len(others) > 1:
        mean = fmean(others)
        claim = f"the {len(others)} cases that may be {MUST_NOT_LOSE:g} % above: their mean is below"
        found.append(Check(claim, f"{mean:+.1f} %", mean < 0))
    for row in alone:
        claim = f"{row['name']} alone: at most {row['limit_percent']:g} % slower than under {ALONE_CONTROL}"
        found.append(Check(claim, f"{row['slower_percent']:+.2f} %", row["holds"]))
    return found


def present(result: Result) -> list[Part]:
    rows, parts = result["rows"], list[Part]()
    if rows:
        controls = list(rows[0]["controls"])
        bars = {control: [(row["controls"][control]["slowdown"], None) for row in rows] for control in controls}
        columns = ("", *controls, "against the best TCP", "limit")
        parts.append(Bars("Mean slowdown", "× alone", [row["case"] for row in rows], bars, floor=1.0))
        parts.append(Table("Mean slowdown", columns, [_line(row, controls) for row in rows]))
        lines = [line for row in rows for line in _job_lines(row, controls)]
        parts.append(Table("Each job", ("", "job", *columns[1:-1]), lines))
    if result["alone"]:
        columns = ("", "MB", "computes s", "iteration s", "communicates", "under paceline", "holds")
        parts.append(Table("Alone", columns, [_alone_line(row) for row in result["alone"]]))
    if result["not_helped"]:
        lines = [(one["job"], one["case"], f"{one['slower_percent']:+.1f} %", one["than"])
                 for one in result["not_helped"]]  # fmt: skip
        parts.append(Table("Jobs that paceline does not help", ("", "in", "slower by", "than under"), lines))
    return parts


def _line(row: Result, controls: Sequence[str]) -> tuple[str, ...]:
    slowdowns = (f"{row['controls'][control]['slowdown']:.3f}" for control in controls)
    against = f"{row['against_best_tcp_percent']:+.1f} % ({row['best_tcp']})"
    limit = row.get("limit_slowdown")  # older results have none
    return (row["case"], *slowdowns, against, f"{row['limit_percent']:+g} %" if limit is None else f"{limit:g}")


def _job_lines(row: Result, controls: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        (row["case"], name, *(f"{row['controls'][control]['jobs'][name]:.3f}" for control in controls),
         f"{percent:+.1f} % ({row['best_tcp']})")
        for name, percent in row["jobs_against_best_tcp_percent"].items()
    ]  # fmt: skip


def _alone_line(row: Result) -> tuple[str, ...]:
    times = (f"{row['model_mb']:g}", f"{row['compute_s']:g}", f"{row['iteration_s']:.3f}")
    shares = (f"{row['communication_percent']:.0f} %", f"{row['slower_percent']:+.2f} %")
    return (row["name"], *times, *shares, "yes" if row["holds"] else "NO")


EXPERIMENT = Experiment(
    name="real-jobs",
    figure="",
    shows="which kinds of training jobs train faster than under any TCP, and which do not",
    run=run,
    present=present,
    differs="torch over gloo, computing is a sleep; the paper has DDP and parameter servers only.",
    repeats=3,
)

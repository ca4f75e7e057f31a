"""A measurement as the JSON object whose keys outside tools rely on, and as tables.

Steady state begins after the first three iterations, as in the simulator; the warm-up and the whole run are reported
beside it. Intervals are Student's, 95 %, over the repeats.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from math import sqrt
from statistics import fmean, stdev

from bench.jobs.cases import Measurement
from bench.jobs.run import JobsRun
from bench.testbed.routes import detours, flows_in
from paceline.sim.run import (
    WARM_UP_ITERATIONS,
    iteration_times_s,
    job_result,
    mean_iteration_s,
    percentile,
    steady_times_s,
    whole_iteration_s,
)

Document = dict[str, object]
# Student's t for 95 %, by degrees of freedom from 1; beyond, nearly normal.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086)  # fmt: skip
_T95_MANY = 2.0


@dataclass(frozen=True, slots=True)
class Estimate:
    mean: float
    half_width: float | None  # of the interval; None of a single value

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        if len(values) < 2:
            return cls(fmean(values), None)
        t = _T95[len(values) - 2] if len(values) - 2 < len(_T95) else _T95_MANY
        return cls(fmean(values), t * stdev(values) / sqrt(len(values)))

    def interval(self) -> list[float] | None:
        return None if self.half_width is None else [self.mean - self.half_width, self.mean + self.half_width]

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.half_width is None else f"{self.mean:.3f} ± {self.half_width:.3f}"


def document(measured: Measurement, wall_s: float) -> Document:
    scenario = measured.scenario
    return {
        "scenario": scenario.name,
        **asdict(measured.conditions),
        "repeats": len(next(iter(measured.runs.values()))),
        "capacity_bound": measured.bound.mean,
        "controls": [_control(measured, control, runs) for control, runs in measured.runs.items()],
        "network_bytes_checked": True,  # a run whose bytes are missing has raised RunFailed
        "detours": [str(flow) for flow in detours(scenario.topology, flows_in(scenario))],
        "wall_s": wall_s,
    }


def steady_slowdown(measured: Measurement, control: str) -> Estimate:
    """Mean slowdown over the jobs after their warm-up, over the repeats."""
    return Estimate.of([_mean_slowdown(measured, run) for run in measured.runs[control]])


def whole_slowdown(measured: Measurement, control: str) -> Estimate:
    """The same with the warm-up."""
    return Estimate.of([_mean_slowdown(measured, run, whole=True) for run in measured.runs[control]])


def _mean_slowdown(measured: Measurement, run: JobsRun, whole: bool = False) -> float:
    means = []
    for job in run.jobs:
        mean_s = whole_iteration_s(job, run.lasted_ns) if whole else mean_iteration_s(job, run.lasted_ns)
        means.append(mean_s / measured.alone_s[job.spec.name])
    return fmean(means)


def _control(measured: Measurement, control: str, runs: Sequence[JobsRun]) -> Document:
    steady = steady_slowdown(measured, control)
    whole = whole_slowdown(measured, control)
    return {
        "control": control,
        "jobs": [_job(measured, runs, number) for number in range(len(measured.scenario.jobs))],
        "mean_slowdown": steady.mean,
        "mean_slowdown_95": steady.interval(),
        "whole_run_slowdown": whole.mean,
        "whole_run_slowdown_95": whole.interval(),
        "ratio_to_bound": steady.mean / measured.bound.mean,
        "host_cpu_percent": fmean(run.cpu.host_percent for run in runs),
        "switch_cpu_percent": fmean(run.cpu.switch_percent for run in runs),
        "fail_opens": sum(run.fail_opens for run in runs),
        "machine_stalled_percent": _stalled_percent(runs),
        "cross_traffic_bytes": [list(run.cross_traffic_bytes) for run in runs],
        "runs": [
            {
                "mean_slowdown": _mean_slowdown(measured, run),
                "iteration_s": {job.spec.name: iteration_times_s(job) for job in run.jobs},
            }
            for run in runs
        ],
    }


def _stalled_percent(runs: Sequence[JobsRun]) -> float | None:
    known = [run.stalled_percent for run in runs if run.stalled_percent is not None]
    return fmean(known) if known else None


def _job(measured: Measurement, runs: Sequence[JobsRun], number: int) -> Document:
    jobs = [run.jobs[number] for run in runs]
    alone_s = measured.alone_s[jobs[0].spec.name]
    results = [job_result(job, alone_s, run.lasted_ns) for job, run in zip(jobs, runs, strict=True)]
    warm_up = list(chain.from_iterable(iteration_times_s(job)[:WARM_UP_ITERATIONS] for job in jobs))
    steady = list(chain.from_iterable(
        steady_times_s(job, run.lasted_ns) or [result.mean_iteration_s]
        for job, run, result in zip(jobs, runs, results, strict=True)
    ))  # fmt: skip
    finished = all(result.jct_s is not None for result in results)
    slowdown = Estimate.of([result.slowdown for result in results])
    return {
        "name": jobs[0].spec.name,
        "iterations": min(result.iterations for result in results),  # of the repeat with fewest
        "iterations_of_all_repeats": sum(result.iterations for result in results),
        "alone_iteration_s": alone_s,
        "mean_iteration_s": fmean(result.mean_iteration_s for result in results),
        "p99_iteration_s": percentile(steady, 99),
        "warm_up_iteration_s": fmean(warm_up) if warm_up else None,
        "slowdown": slowdown.mean,
        "slowdown_95": slowdown.interval(),
        "jct_s": fmean(result.jct_s or 0.0 for result in results) if finished else None,
        "finished": finished,
    }


CONTROL_COLUMNS = ("control", "mean slowdown", "whole run", "ratio to bound", "host CPU %", "switch CPU %",
                   "machine stalled %")  # fmt: skip
JOB_COLUMNS = ("job", "control", "iterations", "alone s", "warm-up s", "mean s", "p99 s", "slowdown")


def control_rows(measured: Measurement) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for control, runs in measured.runs.items():
        steady = steady_slowdown(measured, control)
        whole = whole_slowdown(measured, control)
        host_percent = fmean(run.cpu.host_percent for run in runs)
        switch_percent = fmean(run.cpu.switch_percent for run in runs)
        stalled_percent = _stalled_percent(runs)
        stalled = "-" if stalled_percent is None else f"{stalled_percent:.1f}"
        ratio = steady.mean / measured.bound.mean
        rows.append(
            (control, str(steady), str(whole), f"{ratio:.3f}", f"{host_percent:.1f}", f"{switch_percent:.1f}", stalled)
        )
    return rows


def job_rows(measured: Measurement) -> list[tuple[str, ...]]:
    rows = []
    for number, spec in enumerate(measured.scenario.jobs):
        for control, runs in measured.runs.items():
            job = _job(measured, runs, number)
            times = (job["alone_iteration_s"], job["warm_up_iteration_s"], job["mean_iteration_s"],
                     job["p99_iteration_s"], job["slowdown"])  # fmt: skip
            shown = ("-" if time is None else f"{time:.3f}" for time in times)
            rows.append((spec.name, control, str(job["iterations_of_all_repeats"]), *shown))
    return rows

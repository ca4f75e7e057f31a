"""A run's result as the JSON object whose keys outside tools rely on, and as a table."""

from statistics import fmean

from paceline.flowcore.model.scenario import Scenario
from paceline.sim.run import RunResult, percentile

Document = dict[str, object]


def document(result: RunResult, scenario: Scenario, wall_s: float) -> Document:
    """Everything but decision_us and wall_s depends on scenario, policy and seed alone."""
    jcts_s = completion_times_s(result, scenario)
    decisions_us = list(result.decisions_us)
    return {
        "scenario": scenario.name,
        "policy": result.policy,
        "seed": result.seed,
        "jobs": [
            {
                "name": job.name,
                "iterations": job.iterations,
                "alone_iteration_s": job.alone_iteration_s,
                "mean_iteration_s": job.mean_iteration_s,
                "p99_iteration_s": job.p99_iteration_s,
                "slowdown": job.slowdown,
                "jct_s": job.jct_s,
                "finished": job.jct_s is not None,
            }
            for job in result.jobs
        ],
        "mean_slowdown": result.mean_slowdown,
        "capacity_bound": result.bound.mean,
        "ratio_to_bound": result.ratio_to_bound,
        "mean_jct_s": fmean(jcts_s),
        "p99_jct_s": percentile(jcts_s, 99),
        "max_link_overload": result.max_link_overload,
        "simulated_s": result.simulated_s,
        "decision_us": {f"p{percent}": percentile(decisions_us, percent) for percent in (50, 90, 99)},
        "wall_s": wall_s,
    }


def completion_times_s(result: RunResult, scenario: Scenario) -> list[float]:
    """Of a job still running at the end, the time since its start: a lower bound."""
    return [
        max(0.0, result.simulated_s - spec.start_s) if job.jct_s is None else job.jct_s
        for job, spec in zip(result.jobs, scenario.jobs, strict=True)
    ]


COLUMNS = ("job", "iterations", "alone s", "mean s", "p99 s", "slowdown", "done after s")


def rows(result: RunResult) -> list[tuple[str, ...]]:
    return [
        (
            job.name,
            str(job.iterations),
            f"{job.alone_iteration_s:.3f}",
            f"{job.mean_iteration_s:.3f}",
            f"{job.p99_iteration_s:.3f}",
            f"{job.slowdown:.3f}",
            "running" if job.jct_s is None else f"{job.jct_s:.1f}",
        )
        for job in result.jobs
    ]


def summary(result: RunResult) -> str:
    return (
        f"mean slowdown {result.mean_slowdown:.3f}, capacity bound {result.bound.mean:.3f}, "
        f"ratio {result.ratio_to_bound:.3f}; {result.simulated_s:.1f} s simulated"
    )

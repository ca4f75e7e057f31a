"""Tiresias' traces: job_id, num_gpu, submit_time (s), iterations, model_name, duration (s)."""

from pathlib import Path

from sim.profiles import Profiles
from sim.traces.job import TraceJob, compute_of
from sim.traces.lines import ImpossibleJob, Lines, number, read_lines, whole

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")


def read(path: Path, profiles: Profiles, seed: int, *, skip_bad: bool) -> Lines[TraceJob]:
    def job(row: dict[str, str]) -> TraceJob:
        model = row["model_name"]
        if model not in profiles:
            raise ImpossibleJob(row["job_id"], f"no model {model!r} is known")
        gpus, iterations = whole(row, "num_gpu"), whole(row, "iterations", 0)
        if not iterations:
            raise ImpossibleJob(row["job_id"], "it has 0 iterations")
        iteration_s = number(row, "duration", 1e-3) / iterations
        return TraceJob(
            name=row["job_id"],
            arrival_s=number(row, "submit_time"),
            gpus=gpus,
            model=model,
            model_mb=profiles[model].size_mb,
            compute_s=compute_of(iteration_s, profiles[model], gpus),
            iterations=iterations,
        )

    return read_lines(path, COLUMNS, job, skip_bad=skip_bad)

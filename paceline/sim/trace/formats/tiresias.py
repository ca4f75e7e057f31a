"""Tiresias' traces: job_id, num_gpu, submit_time (s), iterations, model_name, duration (s)."""

from pathlib import Path

from paceline.sim.trace.formats.job import TraceJob, compute_of
from paceline.sim.trace.formats.lines import Lines, iterations, known_model, number, read_lines, whole
from paceline.sim.trace.profiles import Profiles

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")


def read(path: Path, profiles: Profiles, seed: int, *, skip_bad: bool) -> Lines[TraceJob]:
    def job(row: dict[str, str]) -> TraceJob:
        model = known_model(row, profiles)
        gpus, count = whole(row, "num_gpu"), iterations(row)
        iteration_s = number(row, "duration", 1e-3) / count
        return TraceJob(
            name=row["job_id"],
            arrival_s=number(row, "submit_time"),
            gpus=gpus,
            model=model,
            model_mb=profiles[model].size_mb,
            compute_s=compute_of(iteration_s, profiles[model], gpus),
            iterations=count,
        )

    return read_lines(path, COLUMNS, job, skip_bad=skip_bad)

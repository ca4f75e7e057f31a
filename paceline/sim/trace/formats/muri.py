"""Muri's traces: job_id, num_gpu, submit_time, iterations, model_name, iteration_time, resource_time_2; times in ms.

resource_time_2 is the time the network is used in an iteration (0 for one GPU); the rest is computing here.
"""

from pathlib import Path

from paceline.sim.trace.formats.job import LEAST_COMPUTE, TraceJob
from paceline.sim.trace.formats.lines import Lines, iterations, known_model, number, read_lines, whole
from paceline.sim.trace.profiles import Profiles

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "iteration_time", "resource_time_2")


def read(path: Path, profiles: Profiles, seed: int, *, skip_bad: bool) -> Lines[TraceJob]:
    def job(row: dict[str, str]) -> TraceJob:
        model = known_model(row, profiles)
        iteration_s = number(row, "iteration_time", 1e-3) / 1e3
        network_s = number(row, "resource_time_2") / 1e3
        return TraceJob(
            name=row["job_id"],
            arrival_s=number(row, "submit_time") / 1e3,
            gpus=whole(row, "num_gpu"),
            model=model,
            model_mb=profiles[model].size_mb,
            compute_s=max(iteration_s - network_s, LEAST_COMPUTE * iteration_s),
            iterations=iterations(row),
        )

    return read_lines(path, COLUMNS, job, skip_bad=skip_bad)

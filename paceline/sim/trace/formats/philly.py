"""Microsoft's Philly trace: timestamp, duration (s), num_gpus. It names no models: each job draws a model whose compute
time is known, by the seed and its place in the file, and iterates for as long as it lasted.
"""

import random
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from paceline.sim.all_reduce import exchange_s
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.formats.lines import Lines, number, read_lines, whole
from paceline.sim.trace.profiles import Profiles

COLUMNS = ("timestamp", "duration", "num_gpus")


def read(path: Path, profiles: Profiles, seed: int, *, skip_bad: bool) -> Lines[TraceJob]:
    known = {name: profile for name, profile in profiles.items() if profile.compute_s}
    numbers = count()

    def job(row: dict[str, str]) -> TraceJob:
        arrival = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC)
        gpus = whole(row, "num_gpus")
        place = next(numbers)
        model = random.Random(f"{seed}/philly/{place}").choice(sorted(known))
        compute_s = known[model].compute_s or 0.0
        iteration_s = compute_s + exchange_s(known[model].size_mb, gpus)
        return TraceJob(
            name=f"j{place}",
            arrival_s=arrival.timestamp(),
            gpus=gpus,
            model=model,
            model_mb=known[model].size_mb,
            compute_s=compute_s,
            iterations=max(1, round(number(row, "duration") / iteration_s)),
        )

    return read_lines(path, COLUMNS, job, skip_bad=skip_bad)

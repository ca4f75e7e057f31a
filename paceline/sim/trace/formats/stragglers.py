"""Straggler jitter from measured mini-batch times, as Alibaba published them: worker, time, batch_time_norm.

Each worker's series is divided by the mean over all workers, so that a slow worker is slow throughout and its hiccups
last as long as they did. A simulated worker follows one series from a place of its own (paceline.sim.jobs).
"""

from pathlib import Path

from paceline.sim.jobs import Series
from paceline.sim.trace.formats.lines import number, read_lines, whole

COLUMNS = ("worker", "time", "batch_time_norm")


def read(path: Path) -> Series:
    """One series of factors per worker."""

    def line(row: dict[str, str]) -> tuple[int, float, float]:
        return whole(row, "worker", 0), number(row, "time"), number(row, "batch_time_norm", 1e-9)

    rows = read_lines(path, COLUMNS, line, skip_bad=False).items
    mean = sum(time for _, _, time in rows) / len(rows)
    series: dict[int, list[float]] = {}
    for worker, _, time in rows:
        series.setdefault(worker, []).append(time / mean)
    return tuple(map(tuple, series.values()))

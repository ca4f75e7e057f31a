"""A sweep by placement, as Dally and Titan compare them: for each cluster a table of times and one of machines.

The gains are how much lower the value is under the first placement than on that line, over the seeds both have.
"""

from statistics import fmean

from paceline.sim.trace.results import Row

TIMES: tuple[str, ...] = ("placement", "runs", "makespan h", "mean JCT h", "p95 JCT h", "mean wait h", "exchange h")
TIMES += ("preemptions", "makespan gain", "JCT gain", "exchange gain")
MACHINES: tuple[str, ...] = ("placement", "runs", "machines", "machine-hours", "fragmentation", "profit")
MACHINES += ("MB across machines", "machines gain", "MB gain")

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # columns and lines


def tables(rows: list[Row]) -> dict[str, Table]:
    by_cluster: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        run = row["run"]
        title = f"{run['trace']['file']} on {run['servers']} servers ({run['topology']}, {run['engine']})"
        by_cluster.setdefault(title, {}).setdefault(str(row["placement"]), []).append(row)
    found: dict[str, Table] = {}
    for title, placements in by_cluster.items():
        first = next(iter(placements.values()))
        for what, columns, values in (("times", TIMES, _times), ("machines", MACHINES, _machines)):
            lines = [(name, str(len(rows)), *values(first, rows)) for name, rows in placements.items()]
            found[f"{title}: {what}"] = columns, lines
    return found


def _times(first: list[Row], rows: list[Row]) -> tuple[str, ...]:
    hours = ("makespan_s", "mean_jct_s", "p95_jct_s", "mean_wait_s", "mean_exchange_s")
    return (
        *(f"{_mean(rows, key) / 3600:.1f}" for key in hours),
        f"{_mean(rows, 'preemptions'):.0f}",
        *(_gain(first, rows, key) for key in ("makespan_s", "mean_jct_s", "mean_exchange_s")),
    )


def _machines(first: list[Row], rows: list[Row]) -> tuple[str, ...]:
    return (
        f"{_mean(rows, 'machines_used_mean'):.1f}",
        f"{_mean(rows, 'machine_hours'):.0f}",
        f"{100 * _mean(rows, 'fragmentation_mean'):.1f} %",
        f"{_mean(rows, 'profit_rate'):.2f}",
        f"{_mean(rows, 'cross_mb_mean'):.1f}",
        *(_gain(first, rows, key) for key in ("machines_used_mean", "cross_mb_mean")),
    )


def _mean(rows: list[Row], key: str) -> float:
    return fmean(row[key] for row in rows)


def _gain(first: list[Row], rows: list[Row], key: str) -> str:
    pairs = [(one, other) for one in first for other in rows if one["seed"] == other["seed"] and other[key]]
    if not pairs or rows is first:
        return ""
    return f"{100 * fmean(1.0 - one[key] / other[key] for one, other in pairs):+.0f} %"

"""A sweep by placement, as Dally and Titan compare them: a table per trace and cluster size.

The gains of the first placement are how much lower its value is than that line's, over the seeds that both have.
"""

from statistics import fmean

from sim.results import Row

COLUMNS = (
    "placement", "runs", "makespan h", "mean JCT h", "p95 JCT h", "mean wait h", "exchange h", "preemptions",
    "machines", "machine-hours", "fragmentation", "cross MB", "profit",
    "makespan gain", "JCT gain", "exchange gain",
)  # fmt: skip
GAINS = ("makespan_s", "mean_jct_s", "mean_exchange_s")


def tables(rows: list[Row]) -> dict[str, list[tuple[str, ...]]]:
    by_cluster: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        run = row["run"]
        title = f"{run['trace']['file']}, {run['topology']}, {run['servers']} servers, {run['engine']} engine"
        by_cluster.setdefault(title, {}).setdefault(str(row["placement"]), []).append(row)
    return {title: _table(placements) for title, placements in by_cluster.items()}


def _table(placements: dict[str, list[Row]]) -> list[tuple[str, ...]]:
    first = next(iter(placements.values()))
    return [(name, *_values(rows), *(_gain(first, rows, key) for key in GAINS)) for name, rows in placements.items()]


def _values(rows: list[Row]) -> tuple[str, ...]:
    hours = ("makespan_s", "mean_jct_s", "p95_jct_s", "mean_wait_s", "mean_exchange_s")
    return (
        str(len(rows)),
        *(f"{fmean(row[key] for row in rows) / 3600:.1f}" for key in hours),
        f"{fmean(row['preemptions'] for row in rows):.0f}",
        f"{fmean(row['machines_used_mean'] for row in rows):.1f}",
        f"{fmean(row['machine_hours'] for row in rows):.0f}",
        f"{100 * fmean(row['fragmentation_mean'] for row in rows):.1f} %",
        f"{fmean(row['cross_mb_mean'] for row in rows):.1f}",
        f"{fmean(row['profit_rate'] for row in rows):.2f}",
    )


def _gain(first: list[Row], rows: list[Row], key: str) -> str:
    pairs = [(one, other) for one in first for other in rows if one["seed"] == other["seed"] and other[key]]
    return f"{100 * fmean(1.0 - one[key] / other[key] for one, other in pairs):+.0f} %" if pairs else ""

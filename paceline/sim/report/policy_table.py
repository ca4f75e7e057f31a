"""A sweep by policy: for each trace a table of completion times and one of how time is spent.

The gain is how much shorter the mean JCT is under the yardstick than on that line, over the seeds both have.
"""

from statistics import fmean

from paceline.sim.report.placement_table import Table
from paceline.sim.trace.results import Row

# Keys of `paceline sim compare --json`: a settlement is what is called a reallocation elsewhere.
SPENT = ("policy", "computing", "iteration mean s", "iteration p99 s", "exchange", "contention", "settlement p90 µs")


def times(yardstick: str) -> tuple[str, ...]:
    return "policy", "runs", "mean JCT s", "median", "p95", "p99", f"{yardstick} is"


def tables(rows: list[Row], yardstick: str) -> dict[str, Table]:
    found: dict[str, Table] = {}
    for trace, policies in by_trace(rows).items():
        best = policies.get(yardstick, [])
        lines = [(name, str(len(rows)), *_times(best, rows)) for name, rows in policies.items()]
        found[f"{trace}: times"] = times(yardstick), lines
        found[f"{trace}: how they are spent"] = SPENT, [(name, *_spent(rows)) for name, rows in policies.items()]
    return found


def by_trace(rows: list[Row]) -> dict[str, dict[str, list[Row]]]:
    """Rows by trace and policy; with the placement where there are several."""
    several = len({row["placement"] for row in rows}) > 1
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        run = row["run"]
        load = f", load {run['load']:g}" if run["load"] != 1.0 else ""
        name = f"{row['policy']}, {row['placement']}" if several else str(row["policy"])
        found.setdefault(f"{run['trace']['file']}{load}", {}).setdefault(name, []).append(row)
    return found


def _times(best: list[Row], rows: list[Row]) -> tuple[str, ...]:
    shared = [(mine, own) for mine in best for own in rows if mine["seed"] == own["seed"]]
    gain = fmean(1.0 - mine["mean_jct_s"] / own["mean_jct_s"] for mine, own in shared) if shared else None
    jcts_s = ("mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s")
    return (
        *(f"{fmean(row[key] for row in rows):.1f}" for key in jcts_s),
        "" if gain is None or rows is best else f"{100 * gain:+.1f} % shorter",
    )


def _spent(rows: list[Row]) -> tuple[str, ...]:
    return (
        _percent([row.get("gpu_compute_share") for row in rows]),
        _mean([row.get("iteration", {}).get("mean_s") for row in rows]),
        _mean([row.get("iteration", {}).get("p99_s") for row in rows]),
        _percent([row["network"]["exchange_share"] for row in rows]),
        _percent([row["network"]["contention_share"] for row in rows]),
        _mean([row.get("settle_us", {}).get("p90") for row in rows], digits=0),
    )


def _mean(values: list[float | None], digits: int = 3) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.{digits}f}" if known else ""  # the analytic engines move no flows and reallocate nothing


def _percent(shares: list[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{100 * fmean(known):.0f} %" if known else ""

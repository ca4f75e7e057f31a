"""A sweep as people compare it: a table per trace, and the distributions of Fig. 15 of the paper."""

from pathlib import Path
from statistics import fmean

from sim.figure import COLORS, INK
from sim.results import Row

TIMES = 7  # columns: scheduler, runs and completion times; the others say how time is spent


def columns(yardstick: str) -> tuple[str, ...]:
    times = ("scheduler", "runs", "mean JCT s", "median", "p95", "p99", f"{yardstick} is")
    spent = ("computing", "iteration mean s", "iteration p99 s", "exchange", "contention", "settlement p90 µs")
    return times + spent


def by_trace(rows: list[Row]) -> dict[str, dict[str, list[Row]]]:
    """Rows by trace and scheduler; with its placement where there are several."""
    several = len({row["placement"] for row in rows}) > 1
    tables: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        run = row["run"]
        load = f", load {run['load']:g}" if run["load"] != 1.0 else ""
        scheduler = f"{row['policy']}, {row['placement']}" if several else str(row["policy"])
        tables.setdefault(f"{run['trace']['file']}{load}", {}).setdefault(scheduler, []).append(row)
    return tables


def table(schedulers: dict[str, list[Row]], yardstick: str) -> list[tuple[str, ...]]:
    """How much shorter the mean JCT is under the yardstick, over the seeds that both have."""
    lines = []
    for scheduler, rows in schedulers.items():
        best = schedulers.get(yardstick, [])
        shared = [(mine, own) for mine in best for own in rows if mine["seed"] == own["seed"]]
        gain = fmean(1.0 - mine["mean_jct_s"] / own["mean_jct_s"] for mine, own in shared) if shared else None
        jcts_s = ("mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s")
        lines.append(
            (
                scheduler,
                str(len(rows)),
                *(f"{fmean(row[key] for row in rows):.1f}" for key in jcts_s),
                "" if gain is None or scheduler == yardstick else f"{100 * gain:+.1f} % shorter",
                _percent([row.get("gpu_compute_share") for row in rows]),
                _mean([row.get("iteration", {}).get("mean_s") for row in rows]),
                _mean([row.get("iteration", {}).get("p99_s") for row in rows]),
                _percent([row["network"]["exchange_share"] for row in rows]),
                _percent([row["network"]["contention_share"] for row in rows]),
                f"{fmean(row['settle_us']['p90'] for row in rows):.0f}",
            )
        )
    return lines


def _mean(times_s: list[float | None]) -> str:
    known = [time_s for time_s in times_s if time_s is not None]
    return f"{fmean(known):.3f}" if known else ""


def _percent(shares: list[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{100 * fmean(known):.0f} %" if known else ""


PANELS = (
    ("jct_cdf_s", "job completion time, s", "log"),
    ("link_utilization_cdf", "mean utilization of a link", "linear"),
    ("settle_cdf_us", "one settlement of the whole cluster, µs", "log"),
)


def draw(rows: list[Row], path: Path) -> None:
    """CDFs over all rows of a policy, each quantile averaged over its runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 3.8), layout="constrained")
    policies = list(dict.fromkeys(str(row["policy"]) for row in rows))
    for axes, (key, label, scale) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for number, policy in enumerate(policies):
            curves = [row[key] for row in rows if row["policy"] == policy and row[key]]
            if curves:
                quantiles = [fmean(curve[point] for curve in curves) for point in range(len(curves[0]))]
                shares = [point / (len(quantiles) - 1) for point in range(len(quantiles))]
                axes.plot(quantiles, shares, color=COLORS[number % len(COLORS)], label=policy, linewidth=1.6)
        axes.set_xscale(scale)
        axes.set_xlabel(label, color=INK)
        axes.set_ylim(0.0, 1.0)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("share of jobs, links, settlements")
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, dpi=160)

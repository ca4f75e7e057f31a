"""A sweep as people compare it: a table per trace, and the distributions of Fig. 15 of the paper."""

from pathlib import Path
from statistics import fmean

from sim.figure import COLORS, INK
from sim.results import Row

YARDSTICK = "paceline"
COLUMNS = ("policy", "runs", "mean JCT s", "p99 JCT s", "paceline is", "exchange", "contention", "settlement p90 µs")


def tables(rows: list[Row]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Columns and lines, by trace."""
    return {trace: (COLUMNS, table(policies)) for trace, policies in by_trace(rows).items()}


def by_trace(rows: list[Row]) -> dict[str, dict[str, list[Row]]]:
    """Rows by trace and policy."""
    tables: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        run = row["run"]
        load = f", load {run['load']:g}" if run["load"] != 1.0 else ""
        tables.setdefault(f"{run['trace']['file']}{load}", {}).setdefault(str(row["policy"]), []).append(row)
    return tables


def table(policies: dict[str, list[Row]]) -> list[tuple[str, ...]]:
    """How much shorter the mean JCT is under the yardstick, over the seeds that both have."""
    lines = []
    for policy, rows in policies.items():
        shared = [(mine, own) for mine in policies.get(YARDSTICK, []) for own in rows if mine["seed"] == own["seed"]]
        gain = fmean(1.0 - mine["mean_jct_s"] / own["mean_jct_s"] for mine, own in shared) if shared else None
        lines.append(
            (
                policy,
                str(len(rows)),
                f"{fmean(row['mean_jct_s'] for row in rows):.1f}",
                f"{fmean(row['p99_jct_s'] for row in rows):.1f}",
                "" if gain is None or policy == YARDSTICK else f"{100 * gain:+.1f} % shorter",
                _percent([row["network"]["exchange_share"] for row in rows]),
                _percent([row["network"]["contention_share"] for row in rows]),
                _microseconds([row["settle_us"]["p90"] for row in rows if "settle_us" in row]),
            )
        )
    return lines


def _microseconds(times_us: list[float]) -> str:
    return f"{fmean(times_us):.0f}" if times_us else ""  # the analytic engine settles nothing


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
            curves = [row[key] for row in rows if row["policy"] == policy and row.get(key)]
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

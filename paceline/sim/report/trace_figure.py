"""A sweep by policy as a figure: the distributions of Fig. 15 of the paper."""

from pathlib import Path
from statistics import fmean

from paceline.sim.report.figure import COLORS, INK
from paceline.sim.trace.results import Row

PANELS = (
    ("jct_cdf_s", "job completion time, s", "log"),
    ("link_utilization_cdf", "mean utilization of a link", "linear"),
    ("settle_cdf_us", "one reallocation of the whole cluster, µs", "log"),
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
    figure.axes[0].set_ylabel("share of jobs, links, reallocations")
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, dpi=160)

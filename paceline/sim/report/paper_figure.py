"""The panels of a paper's figure beside each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.sim.papers.panel import POINTS, Bars, Curves, Panel
from paceline.sim.report.figure import COLORS, DPI, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_IN = (4.8, 3.8)
SERIES = (*COLORS, "#999999", INK)


def draw(panels: Sequence[Panel], title: str, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PANEL_IN[0] * len(panels), PANEL_IN[1]), layout="constrained")
    alike = len(panels) > 1 and len({tuple(panel.series) for panel in panels}) == 1  # one legend says it for all
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set_title(panel.title, color=INK, size=10)
        if isinstance(panel, Bars):
            _bars(axes, panel)
        else:
            _curves(axes, panel)
        if not alike:
            columns = min(4, len(panel.series))
            axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=columns)
    if alike:
        figure.legend(*axes.get_legend_handles_labels(), fontsize=8, frameon=False, loc="outside lower center", ncol=6)
    figure.suptitle(title, color=INK, size=11)
    figure.savefig(path, dpi=DPI)


def _bars(axes: "Axes", panel: Bars) -> None:
    """The lines on them are the least and the most of the seeds."""
    width = 0.8 / len(panel.series)
    for number, (name, bars) in enumerate(panel.series.items()):
        places = [place + (number - (len(panel.series) - 1) / 2) * width for place in range(len(panel.labels))]
        means = [mean for mean, _, _ in bars]
        reach = [[mean - least for mean, least, _ in bars], [most - mean for mean, _, most in bars]]
        axes.bar(places, means, width, yerr=reach, label=name, color=SERIES[number % len(SERIES)], ecolor=INK)
    axes.set_xticks(range(len(panel.labels)), panel.labels)
    axes.set_ylabel(panel.unit)
    if panel.logarithmic:
        axes.set_yscale("log")


def _curves(axes: "Axes", panel: Curves) -> None:
    for number, (name, values) in enumerate(panel.series.items()):
        axes.plot(values, POINTS, label=name, color=SERIES[number % len(SERIES)])
    axes.set_xlabel(panel.unit)
    axes.set_ylabel("at most, %")

"""Bandwidth over time on a link, stacked by job: colliding bursts share the height, bursts in turn alternate."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.model.units import gbps_from_bps, s_from_ns
from paceline.sim.recording import Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINKS = 6
FORMATS = (".png", ".svg", ".pdf")

# Okabe and Ito's palette, told apart with any kind of colour blindness; the two strongest first.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
CROSS_TRAFFIC = "cross traffic"
CROSS_TRAFFIC_COLOR = "#BBBBBB"
INK = "#333333"

WIDTH_IN = 10.0
PANEL_IN = 1.75
MARGIN_IN = 1.0  # title, legend and the time axis
DPI = 160

Window = tuple[float, float]  # seconds, from and to
Interval = tuple[float, float, Mapping[FlowId, float]]  # seconds from and to, rates in bit/s


class FigureError(Exception):
    """The figure cannot be drawn here; str() says why in one line."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    link: str
    recording: Recording


def require_figures(path: Path) -> None:
    """Before a long run: is there matplotlib to draw with, and a place to write to?"""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise FigureError("figures need matplotlib: pip install 'paceline[plot]'") from None
    if path.suffix.lower() not in FORMATS:
        raise FigureError(f"{path}: expected a figure's name to end in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise FigureError(f"{path}: no directory {path.parent}")


def draw_links(
    recording: Recording,
    scenario: Scenario,
    path: Path,
    links: Sequence[str] | None = None,
    window_s: Window | None = None,
    title: str = "",
) -> None:
    """One panel per link; without `links`, those that carried most, busiest first."""
    window_s = window_s or (0.0, s_from_ns(recording.times_ns[-1]))
    chosen = busiest_links(recording, scenario, window_s)[:MOST_LINKS] if links is None else links
    draw_panels([Panel(link, link, recording) for link in chosen], scenario, path, window_s, title)


def draw_panels(panels: Sequence[Panel], scenario: Scenario, path: Path, window_s: Window, title: str = "") -> None:
    """Panels below each other on one time axis; one link under several policies makes a comparison."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, MARGIN_IN + PANEL_IN * max(1, len(panels))), layout="constrained")
    all_axes = figure.subplots(max(1, len(panels)), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(all_axes, panels, strict=False):
        _draw_panel(axes, panel, scenario, window_s)
    all_axes[-1].set_xlabel("time (s)")
    all_axes[-1].set_xlim(*window_s)
    figure.suptitle(title, x=0.01, ha="left", fontsize=14, fontweight="bold", color=INK)
    _draw_legend(figure, scenario)
    figure.savefig(path, dpi=DPI)


def busiest_links(recording: Recording, scenario: Scenario, window_s: Window) -> list[str]:
    """Links that carried anything in the window, by the part of their capacity used."""
    bits_of_flow: dict[FlowId, float] = {}
    for start_s, end_s, rates_bps in _intervals(recording, window_s):
        for flow, rate_bps in rates_bps.items():
            bits_of_flow[flow] = bits_of_flow.get(flow, 0.0) + rate_bps * (end_s - start_s)
    topology = scenario.topology
    used: dict[str, float] = {}
    for flow, bits in bits_of_flow.items():
        for link in topology.path(flow.source, flow.target, str(flow)):
            used[link] = used.get(link, 0.0) + bits / topology.links[link].capacity_bps
    return sorted((link for link in used if used[link] > 0.0), key=lambda link: -used[link])


def _intervals(recording: Recording, window_s: Window) -> Iterator[Interval]:
    """Stretches of constant rates, clipped to the window."""
    edges_s = [*map(s_from_ns, recording.times_ns), math.inf]
    for (start_s, end_s), rates_bps in zip(pairwise(edges_s), recording.rates_bps, strict=True):
        start_s, end_s = max(start_s, window_s[0]), min(end_s, window_s[1])
        if start_s < end_s:
            yield start_s, end_s, rates_bps


def _draw_panel(axes: "Axes", panel: Panel, scenario: Scenario, window_s: Window) -> None:
    colors = _colors(scenario)
    crosses: dict[FlowId, bool] = {}
    edges_s = [window_s[0]]
    heights_gbps: dict[str, list[float]] = {name: [] for name in colors}
    for _, end_s, rates_bps in _intervals(panel.recording, window_s):
        totals = dict.fromkeys(colors, 0.0)
        for flow, rate_bps in rates_bps.items():
            if flow not in crosses:
                path = scenario.topology.path(flow.source, flow.target, str(flow))
                crosses[flow] = panel.link in path
            if crosses[flow]:
                totals[flow.job if flow.job in totals else CROSS_TRAFFIC] += gbps_from_bps(rate_bps)
        edges_s.append(end_s)
        for name, total in totals.items():
            heights_gbps[name].append(total)

    base = [0.0] * (len(edges_s) - 1)
    for name, heights in heights_gbps.items():
        top = [low + height for low, height in zip(base, heights, strict=True)]
        axes.stairs(top, edges_s, baseline=base, fill=True, color=colors[name], linewidth=0)
        base = top

    capacity_gbps = gbps_from_bps(scenario.topology.links[panel.link].capacity_bps)
    axes.axhline(capacity_gbps, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_ylim(0.0, 1.12 * capacity_gbps)
    axes.set_ylabel("Gbit/s")
    axes.set_title(panel.title, loc="left", fontsize=11, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)


def _draw_legend(figure: "Figure", scenario: Scenario) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    jobs = [Patch(color=color, label=name) for name, color in _colors(scenario).items()]
    entries = [*jobs, Line2D([], [], color=INK, linewidth=1, linestyle=(0, (4, 3)), label="capacity")]
    figure.legend(handles=entries, loc="outside lower center", ncols=min(8, len(entries)), frameon=False)


def _colors(scenario: Scenario) -> dict[str, str]:
    """In the order of stacking; more jobs than colours go round."""
    colors = {job.name: COLORS[number % len(COLORS)] for number, job in enumerate(scenario.jobs)}
    return colors | {CROSS_TRAFFIC: CROSS_TRAFFIC_COLOR} if scenario.cross_traffic else colors

"""Links as circles (CASSINI, Fig. 4 and 5): the demand of each job around them, stacked, before and after rotation."""

from pathlib import Path
from typing import Any

import numpy as np

from paceline.flowcore.allocation.shifts.circle import ANGLES, on_circle
from paceline.flowcore.allocation.shifts.plan import Link, Plan
from paceline.sim.report.figure import COLORS, DPI, INK

PANEL_IN = 3.4


def draw_circles(links: dict[str, Link], plan: Plan, path: Path) -> None:
    """One row per link that jobs share; the dashed circle is its capacity, what lies beyond it is excess."""
    from matplotlib.figure import Figure

    rows = max(1, len(plan.rotations))
    figure = Figure(figsize=(2 * PANEL_IN + 3.2, PANEL_IN * rows + 0.4), layout="constrained")
    all_axes = figure.subplots(rows, 2, subplot_kw={"projection": "polar"}, squeeze=False)
    for pair, (name, rotation) in zip(all_axes, plan.rotations.items(), strict=False):
        link = links[name]
        turned = dict(zip(link.profiles, rotation.degrees, strict=True))
        for axes, after in zip(pair, (False, True), strict=True):
            score = rotation.score if after else rotation.unrotated_score
            title = f"{name}, rotated" if after else name
            axes.set_title(f"{title}: score {score:.2f}", fontsize=10, color=INK)
            _draw(axes, link, turned if after else dict.fromkeys(turned, 0.0), rotation.perimeter_ms, plan)
        for axes in pair:
            axes.set_ylim(top=max(one.get_ylim()[1] for one in pair))
        pair[1].legend(loc="center left", bbox_to_anchor=(1.08, 0.5), frameon=False, fontsize=9)
    figure.savefig(path, dpi=DPI)


def _draw(axes: Any, link: Link, degrees: dict[str, float], perimeter_ms: float, plan: Plan) -> None:
    angles = np.arange(ANGLES) * 2 * np.pi / ANGLES
    bottom = np.zeros(ANGLES)
    for number, (job, profile) in enumerate(link.profiles.items()):
        circle = on_circle(profile.stretched(plan.iterations_ms[job]), perimeter_ms)
        demand = np.roll(circle, round(degrees[job] * ANGLES / 360))
        label = f"{job} +{degrees[job]:.0f}°" if degrees[job] else job
        axes.bar(
            angles,
            demand,
            2 * np.pi / ANGLES,
            bottom,
            linewidth=0,
            color=COLORS[number % len(COLORS)],
            label=label,
            align="edge",
        )
        bottom += demand
    around = np.linspace(0.0, 2 * np.pi, ANGLES)
    axes.plot(around, np.full(ANGLES, link.capacity_gbps), color=INK, linestyle="--", linewidth=1.0)
    axes.set_ylim(-0.6 * link.capacity_gbps, 1.05 * max(bottom.max(), link.capacity_gbps))
    axes.set_yticks([])
    axes.set_xticks(np.linspace(0.0, 2 * np.pi, 4, endpoint=False))
    axes.set_xticklabels([f"{perimeter_ms * part / 4:.0f} ms" for part in range(4)], fontsize=7)
    axes.spines["polar"].set_visible(False)

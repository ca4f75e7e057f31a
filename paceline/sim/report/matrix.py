"""A sweep as a matrix: placements down, policies across, the mean JCT of the seeds in each cell."""

from math import isnan
from pathlib import Path
from statistics import fmean

from paceline.sim.report.figure import INK
from paceline.sim.report.placement_table import Table
from paceline.sim.report.policy_table import by_trace
from paceline.sim.trace.results import Row

Cells = dict[tuple[str, str], float]  # placement and policy: seconds


def matrices(rows: list[Row]) -> dict[str, Cells]:
    """By trace."""
    found: dict[str, Cells] = {}
    for trace, groups in by_trace(rows).items():
        for group in groups.values():
            key = str(group[0]["placement"]), str(group[0]["policy"])
            found.setdefault(trace, {})[key] = fmean(row["mean_jct_s"] for row in group)
    return found


def tables(rows: list[Row]) -> dict[str, Table]:
    """The shortest of each trace has a star."""
    found: dict[str, Table] = {}
    for trace, cells in matrices(rows).items():
        placements, policies = _sides(cells)
        best_s = min(cells.values())
        lines = [(placement, *(_cell(cells.get((placement, p)), best_s) for p in policies)) for placement in placements]
        found[f"{trace}: mean JCT s"] = ("placement", *policies), lines
    return found


def draw(rows: list[Row], path: Path) -> None:
    """Darker is longer; every cell beside the shortest of its trace."""
    from matplotlib.figure import Figure

    found = matrices(rows)
    tallest = max(len(_sides(cells)[0]) for cells in found.values())
    figure = Figure(figsize=(6.0 * len(found), 1.4 + 0.28 * tallest), layout="constrained")
    for axes, (trace, cells) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        placements, policies = _sides(cells)
        best_s = min(cells.values())
        ratios = [[cells.get((row, column), float("nan")) / best_s for column in policies] for row in placements]
        axes.imshow(ratios, cmap="Blues", vmin=1.0, vmax=2.0, aspect="auto")
        for y, of_row in enumerate(ratios):
            for x, ratio in enumerate(of_row):
                label = "" if isnan(ratio) else f"{ratio:.2f}"
                axes.text(x, y, label, ha="center", va="center", color="white" if ratio > 1.6 else INK, size=8)
        axes.set_xticks(range(len(policies)), policies, rotation=20, ha="right")
        axes.set_yticks(range(len(placements)), placements)
        axes.set_title(f"{trace}: mean JCT, 1 is {best_s:.0f} s", color=INK, size=10)
    figure.savefig(path, dpi=160)


def _sides(cells: Cells) -> tuple[list[str], list[str]]:
    return list(dict.fromkeys(row for row, _ in cells)), list(dict.fromkeys(column for _, column in cells))


def _cell(jct_s: float | None, best_s: float) -> str:
    return "" if jct_s is None else f"{jct_s:.1f}{' *' if jct_s == best_s else ''}"

"""A sweep as a matrix: placements down, policies across, the mean JCT of the seeds in each cell.

With several seeds a second table has each cell beside the shortest, seed by seed: by how much it is above, and how sure
that is. A third has each policy beside the policy `fair`, over all placements.
"""

from math import isnan
from pathlib import Path
from statistics import fmean

from paceline.sim.interval import interval
from paceline.sim.report.figure import INK
from paceline.sim.report.placement_table import Table
from paceline.sim.report.policy_table import by_trace
from paceline.sim.trace.results import Row

Cells = dict[tuple[str, str], float]  # placement and policy: seconds
BySeed = dict[tuple[str, str], dict[int, float]]
YARDSTICK = "fair"


def seeds(rows: list[Row]) -> dict[str, BySeed]:
    """By trace."""
    found: dict[str, BySeed] = {}
    for trace, groups in by_trace(rows).items():
        for group in groups.values():
            key = str(group[0]["placement"]), str(group[0]["policy"])
            found.setdefault(trace, {})[key] = {row["seed"]: row["mean_jct_s"] for row in group}
    return found


def matrices(rows: list[Row]) -> dict[str, Cells]:
    """By trace."""
    return {
        trace: {key: fmean(of_seed.values()) for key, of_seed in cells.items()} for trace, cells in seeds(rows).items()
    }


def tables(rows: list[Row]) -> dict[str, Table]:
    """The shortest of each trace has a star."""
    found: dict[str, Table] = {}
    for trace, cells in matrices(rows).items():
        placements, policies = _sides(cells)
        best_s = min(cells.values())
        lines = [(placement, *(_cell(cells.get((placement, p)), best_s) for p in policies)) for placement in placements]
        found[f"{trace}: mean JCT s"] = ("placement", *policies), lines
    for trace, by_seed in seeds(rows).items():
        if all(len(of_seed) > 1 for of_seed in by_seed.values()):
            found |= _compared(trace, by_seed)
    return found


def _compared(trace: str, cells: BySeed) -> dict[str, Table]:
    placements, policies = _sides(dict.fromkeys(cells, 0.0))
    best = min(cells, key=lambda key: fmean(cells[key].values()))
    above = [
        (placement, *(_percent(_above(cells, (placement, policy), best)) for policy in policies))
        for placement in placements
    ]
    found: dict[str, Table] = {f"{trace}: % above {best[0]} with {best[1]}": (("placement", *policies), above)}
    if YARDSTICK in policies:
        found[f"{trace}: % above {YARDSTICK}, over all placements"] = (
            ("policy", "mean", "least of a placement", "most of a placement"),
            [(policy, *_beside_fair(cells, placements, policy)) for policy in policies if policy != YARDSTICK],
        )
    return found


def _above(cells: BySeed, one: tuple[str, str], other: tuple[str, str]) -> list[float]:
    """By how many percent, of the seeds that both have."""
    if one not in cells or other not in cells:
        return []
    shared = [seed for seed in cells[one] if seed in cells[other]]
    return [100.0 * (cells[one][seed] / cells[other][seed] - 1.0) for seed in shared]


def _beside_fair(cells: BySeed, placements: list[str], policy: str) -> tuple[str, str, str]:
    """Seed by seed the mean over placements: placements of one seed are no independent draws."""
    by_placement = [_above(cells, (placement, policy), (placement, YARDSTICK)) for placement in placements]
    by_placement = [values for values in by_placement if values]
    if not by_placement:
        return "", "", ""
    means = sorted(fmean(values) for values in by_placement)
    each_seed = [fmean(values) for values in zip(*by_placement, strict=False)]
    return _percent(each_seed), f"{means[0]:+.1f}", f"{means[-1]:+.1f}"


def _percent(values: list[float]) -> str:
    if not values:
        return ""
    mean, reach = interval(values)
    return f"{mean:+.1f} ± {reach:.1f}"


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

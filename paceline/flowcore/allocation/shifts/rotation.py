"""Which rotations let the jobs of one link interleave best (CASSINI, Table 1).

    demand_α = Σ_j bw_circle_j(α − Δ_j)          score = 1 − mean_α max(demand_α − C, 0) / C        maximise over Δ

Δ_j beyond 2π/r_j repeats itself, and turning all jobs together changes nothing, so the first job stays where it is.
Up to three jobs every combination in steps of PRECISION is tried. With more, each job in turn takes its best place
among the other jobs until none moves (coordinate descent), from several starts. Either result is refined by degrees.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.allocation.shifts.circle import ANGLES, Profile, bounded_perimeter, on_circle

PRECISION = 5  # degrees: §5.7's sweet spot
EXHAUSTIVE_JOBS = 3
STARTS = 12
_GOLDEN = 0.6180339887498949  # its multiples spread evenly over [0, 1)


@dataclass(frozen=True, slots=True)
class Rotation:
    perimeter_ms: float
    degrees: tuple[float, ...]  # Δ_j, in the order of the jobs
    score: float
    unrotated_score: float

    def shifts_ms(self, profiles: Sequence[Profile]) -> tuple[float, ...]:
        """t_j = (Δ_j / 2π · p) mod T_j (eq. 5)."""
        turns = zip(self.degrees, profiles, strict=True)
        return tuple(angle / 360.0 * self.perimeter_ms % profile.iteration_ms for angle, profile in turns)


def rotate(profiles: Sequence[Profile], capacity_gbps: float, grid_ms: float = 1.0) -> Rotation:
    """The best rotation of jobs whose iteration times are multiples of the grid."""
    times_ms = [profile.iteration_ms for profile in profiles]
    perimeter_ms = bounded_perimeter(times_ms, grid_ms)
    circles = [on_circle(profile, perimeter_ms) for profile in profiles]
    ranges = [max(1, round(ANGLES * time_ms / perimeter_ms)) for time_ms in times_ms]
    ranges[0] = 1
    if len(profiles) <= EXHAUSTIVE_JOBS:
        starts = [exhaustive(circles, ranges, capacity_gbps, PRECISION)]
    else:
        starts = [descend(circles, ranges, capacity_gbps, start, PRECISION) for start in _starts(ranges)]
    best = min(starts, key=lambda turns: excess(circles, turns, capacity_gbps))
    best = descend(circles, ranges, capacity_gbps, best, 1)
    nowhere = (0,) * len(profiles)
    return Rotation(
        perimeter_ms,
        tuple(turn * 360.0 / ANGLES for turn in best),
        1.0 - excess(circles, best, capacity_gbps) / capacity_gbps,
        1.0 - excess(circles, nowhere, capacity_gbps) / capacity_gbps,
    )


def excess(circles: Sequence[Floats], turns: Sequence[int], capacity_gbps: float) -> float:
    """The mean demand above capacity, Gbit/s."""
    demand = sum(np.roll(circle, turn) for circle, turn in zip(circles, turns, strict=True))
    return float(np.maximum(demand - capacity_gbps, 0.0).mean())


def exhaustive(circles: Sequence[Floats], ranges: Sequence[int], capacity_gbps: float, step: int) -> tuple[int, ...]:
    """Of all rotations in steps, the best; of equals the smallest."""
    rolled = [turned(circle, np.arange(0, most, step)) for circle, most in zip(circles, ranges, strict=True)]

    def search(demand: Floats, remaining: Sequence[Floats]) -> tuple[float, tuple[int, ...]]:
        first, *others = remaining
        if not others:
            over = np.maximum(demand + first - capacity_gbps, 0.0).sum(axis=1)
            place = int(_argmin(over))
            return float(over[place]), (place * step,)
        found = [search(demand + row, others) for row in first]
        place = int(_argmin(np.array([over for over, _ in found])))
        return found[place][0], (place * step, *found[place][1])

    return search(np.zeros(len(circles[0])), rolled)[1]


def descend(
    circles: Sequence[Floats], ranges: Sequence[int], capacity_gbps: float, start: Sequence[int], step: int
) -> tuple[int, ...]:
    """Each job in turn to its best place among the other jobs, until none gains."""
    turns = list(start)
    demand = np.sum([np.roll(circle, turn) for circle, turn in zip(circles, turns, strict=True)], axis=0)
    best = float(np.maximum(demand - capacity_gbps, 0.0).sum())
    gained = True
    while gained:
        gained = False
        for job, (circle, most) in enumerate(zip(circles, ranges, strict=True)):
            others = demand - np.roll(circle, turns[job])
            tried = np.arange(0, most, step)
            over = np.maximum(others + turned(circle, tried) - capacity_gbps, 0.0).sum(axis=1)
            place = int(_argmin(over))
            if over[place] < best * (1 - 1e-9) - 1e-9:
                best, turns[job], gained = float(over[place]), int(tried[place]), True
                demand = others + np.roll(circle, turns[job])
    return tuple(turns)


def turned(circle: Floats, turns: Ints) -> Floats:
    """One row per rotation."""
    rows: Floats = circle[(np.arange(len(circle)) - turns[:, None]) % len(circle)]
    return rows


def _starts(ranges: Sequence[int]) -> Iterator[tuple[int, ...]]:
    yield (0,) * len(ranges)
    for number in range(1, STARTS):
        yield tuple(int(most * (number * (job + 1) * _GOLDEN % 1.0)) for job, most in enumerate(ranges))


def _argmin(values: Floats) -> int:
    """The first of those that are least but for rounding."""
    return int(np.argmax(values <= values.min() + 1e-9))

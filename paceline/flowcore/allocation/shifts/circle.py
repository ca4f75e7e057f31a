"""The geometric abstraction (CASSINI §3): a job's traffic rolled around a circle.

A job repeats itself every iteration, so time rolled around a circle whose perimeter is a multiple of its iteration
shows its phases at the same angles for ever. Jobs of different iteration times meet on a unified circle:

    p = LCM of the iteration times           r_j = p / T_j  iterations of job j on it

Measured times have no small common multiple. They are rounded up to a grid, the finest on which no circle holds more
than MOST_ITERATIONS of a job; up, because a job can be held back to a longer iteration, never hurried.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats

ANGLES = 360

# More iterations than this on a circle leave each only a few degrees.
MOST_ITERATIONS = 12

# The coarsest grid, as a part of the shortest iteration: what drift may move a job by anyway (§5.7).
COARSEST = 0.05

# Grids are tried from fine to coarse, each so many times the grid before.
_COARSER = 1.25


@dataclass(frozen=True, slots=True)
class Phase:
    """An Up phase; between them is Down."""

    start_ms: float  # after the beginning of the iteration
    length_ms: float
    gbps: float


@dataclass(frozen=True, slots=True)
class Profile:
    """One iteration as a link sees it: data parallel jobs have one phase, hybrid jobs many (Fig. 1)."""

    iteration_ms: float
    phases: tuple[Phase, ...]

    def stretched(self, iteration_ms: float) -> "Profile":
        """The same phases in a longer iteration: the job waits at its end."""
        return Profile(iteration_ms, self.phases)

    def sent(self, times_ms: Floats) -> Floats:
        """Gbit/s·ms sent from 0 to each time, iterations repeating."""
        whole, within = np.divmod(times_ms, self.iteration_ms)
        total = np.zeros(len(times_ms))
        for phase in self.phases:
            total += whole * phase.gbps * phase.length_ms
            total += phase.gbps * np.clip(within - phase.start_ms, 0.0, phase.length_ms)
            # A phase that ends after its iteration began before this one.
            over_ms = phase.start_ms + phase.length_ms - self.iteration_ms
            if over_ms > 0.0:
                total += phase.gbps * np.minimum(within, over_ms)
        return total


def on_circle(profile: Profile, perimeter_ms: float, angles: int = ANGLES) -> Floats:
    """bw_circle_j(α): the mean demand within each angle, Gbit/s."""
    edges = np.linspace(0.0, perimeter_ms, angles + 1)
    return np.diff(profile.sent(edges)) * (angles / perimeter_ms)


def perimeter(iterations_ms: Sequence[float], grid_ms: float) -> float:
    """LCM of times that are multiples of the grid."""
    return math.lcm(*(max(1, round(time_ms / grid_ms)) for time_ms in iterations_ms)) * grid_ms


def on_grid(iterations_ms: Mapping[str, float], meetings: Iterable[Sequence[str]]) -> tuple[dict[str, float], float]:
    """Iteration times rounded up to one grid, and the grid: the finest that bounds the circle of every meeting.

    Times that already have a small common multiple in whole milliseconds keep their values.
    """
    meetings = [tuple(jobs) for jobs in meetings]
    coarsest_ms = COARSEST * min(iterations_ms.values())
    grid_ms = min(1.0, coarsest_ms)
    while True:
        rounded = {job: math.ceil(time_ms / grid_ms - 1e-9) * grid_ms for job, time_ms in iterations_ms.items()}
        if grid_ms >= coarsest_ms or all(_bounded([rounded[job] for job in jobs], grid_ms) for jobs in meetings):
            return rounded, grid_ms
        grid_ms = min(grid_ms * _COARSER, coarsest_ms)


def _bounded(iterations_ms: Sequence[float], grid_ms: float) -> bool:
    return perimeter(iterations_ms, grid_ms) <= MOST_ITERATIONS * min(iterations_ms) * (1 + 1e-9)


def bounded_perimeter(iterations_ms: Sequence[float], grid_ms: float) -> float:
    """As `perimeter`, cut to MOST_ITERATIONS of the longest: beyond it phases sweep past each other anyway."""
    return min(perimeter(iterations_ms, grid_ms), MOST_ITERATIONS * max(iterations_ms))

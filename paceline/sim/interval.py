"""How sure the mean of a few seeds is: Student's 95 % interval."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

# By degrees of freedom; beyond, an approximation that is within a hundredth.
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and how far the interval reaches to either side; of one value it is not known, and 0."""
    freedom = len(values) - 1
    if not freedom:
        return values[0], 0.0
    t = T[freedom - 1] if freedom <= len(T) else 1.96 + 2.5 / freedom
    return fmean(values), t * stdev(values) / sqrt(len(values))

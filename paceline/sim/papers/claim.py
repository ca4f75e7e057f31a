"""A claim of a paper beside what comes out here.

    here     mean over the seeds; spread: the least and the most of them
    holds    a figure: the mean reaches TWO_THIRDS of the paper's, in the same direction
             an order: the mean is above 0, which is where the paper has it

One rule for all claims, so that none is judged by its result. A claim that does not hold says why, from runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

TWO_THIRDS = 2.0 / 3.0


@dataclass(frozen=True, slots=True)
class Claim:
    claim: str
    section: str
    unit: str
    paper: float | str  # an order without a figure: in words
    here: float
    spread: tuple[float, float]
    holds: bool
    why: str  # it does not hold, or what the figure rests on


def figure(claim: str, section: str, paper: float, seeds: Sequence[float], why: str = "", unit: str = "%") -> Claim:
    """`seeds`: the value of each seed."""
    mean = fmean(seeds)
    holds = mean >= TWO_THIRDS * paper if paper > 0.0 else mean <= TWO_THIRDS * paper
    return Claim(claim, section, unit, paper, mean, (min(seeds), max(seeds)), holds, why)


def order(
    claim: str, section: str, paper: float | str, seeds: Sequence[float], why: str = "", unit: str = "%"
) -> Claim:
    """`seeds` of what the paper has above 0."""
    mean = fmean(seeds)
    return Claim(claim, section, unit, paper, mean, (min(seeds), max(seeds)), mean > 0.0, why)


def shown(value: float | str, unit: str) -> str:
    return value if isinstance(value, str) else f"{value:.1f} {unit}"

"""A paper: its set-up, the runs that repeat it, and its claims.

A run is a name; with a seed it gives a flat row of figures, and depends on nothing else. Claims are computed from rows
alone, so runs may be done anywhere and in any order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from paceline.sim.papers.claim import Claim

Row = dict[str, float]


@dataclass(frozen=True, slots=True)
class Results:
    """Rows by run, one for each seed, in the order of the seeds."""

    rows: dict[str, list[Row]]

    def values(self, run: str, key: str) -> list[float]:
        return [row[key] for row in self.rows[run]]

    def mean(self, run: str, key: str) -> float:
        return fmean(self.values(run, key))

    def lower(self, key: str, run: str, than: str) -> list[float]:
        """By how many percent a run's figure is below another's, seed by seed."""
        pairs = zip(self.values(run, key), self.values(than, key), strict=True)
        return [100.0 * (1.0 - ours / theirs) for ours, theirs in pairs]


@dataclass(frozen=True, slots=True)
class Paper:
    name: str
    title: str
    set_up: str  # as the paper has it
    assumed: tuple[str, ...]  # where it is silent, or we differ
    seeds: int  # unless told otherwise
    quick: str  # what --quick cuts
    runs: Callable[[bool], Sequence[str]]  # of each seed; quick
    perform: Callable[[str, int, bool], Row]  # a run; a seed; quick
    claims: Callable[[Results], Iterator[Claim]]

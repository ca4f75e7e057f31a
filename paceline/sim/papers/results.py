"""Figures of the runs of a paper, seed by seed."""

from dataclasses import dataclass
from statistics import fmean

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

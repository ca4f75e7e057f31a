"""A panel of a paper's figure with what comes out here: bars where the paper has them, curves for distributions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from paceline.sim.papers.results import Results, Row
from paceline.sim.run import percentile

Bar = tuple[float, float, float]  # the mean of the seeds, the least and the most

POINTS = tuple(range(0, 101, 5))  # of a distribution, in percent


@dataclass(frozen=True, slots=True)
class Bars:
    """A group of bars for each label, one bar a series."""

    title: str
    unit: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[Bar]]
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """How large a share of all values is at most so large."""

    title: str
    unit: str
    series: Mapping[str, Sequence[float]]  # at POINTS


Panel = Bars | Curves


def bar(results: Results, run: str, key: str, scale: float = 1.0) -> Bar:
    values = [scale * value for value in results.values(run, key)]
    return sum(values) / len(values), min(values), max(values)


def distribution(values: Sequence[float]) -> Row:
    """For a row: the values at POINTS."""
    return {_point(point): percentile(values, point) for point in POINTS} if values else {}


def curve(results: Results, run: str, scale: float = 1.0) -> list[float]:
    """The mean of the seeds at each point."""
    return [scale * results.mean(run, _point(point)) for point in POINTS]


def without_points(row: Row) -> Iterator[tuple[str, float]]:
    """A row's figures proper."""
    points = {_point(point) for point in POINTS}
    yield from ((key, value) for key, value in row.items() if key not in points)


def _point(percent: int) -> str:
    return f"at_{percent}_percent"

"""Tables and figures of an experiment as plain data: the command prints the tables, the HTML page shows all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Spread = tuple[float, float | None]  # mean, and half the width of its 95 % interval, where there is one


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Bars:
    """Groups of bars side by side, one bar per series."""

    title: str
    unit: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[Spread]]
    floor: float = 0.0  # where bars begin
    line: float | None = None  # a level to compare with


@dataclass(frozen=True, slots=True)
class Lines:
    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    steps: bool = False  # a value holds until the next


@dataclass(frozen=True, slots=True)
class Layers:
    """Areas on top of each other over time."""

    title: str
    unit: str
    times_s: Sequence[float]
    layers: Mapping[str, Sequence[float]]
    line: float


Part = Table | Bars | Lines | Layers

"""CSV files as published: a header, then lines, some of which may be wrong.

A wrong line is named with file and line number. Whether it ends the reading or is skipped and counted is the user's
choice: a trace may have been cut off by a crash, but silence about it would change every result. A line that is right
but describes an impossible job is neither: that job is refused, with the reason, and the other lines are read.
"""

import csv
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from paceline.flowcore.model.fields import InputError
from paceline.sim.trace.formats.job import Refused

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lines(Generic[T]):
    items: tuple[T, ...]
    skipped: int
    refused: tuple[Refused, ...] = ()


class ImpossibleJob(Exception):
    """A line that is well-formed, of a job that no cluster could run."""

    def __init__(self, job: str, reason: str) -> None:
        super().__init__(job, reason)
        self.refused = Refused(job, reason)


def read_lines(path: Path, columns: Sequence[str], read: Callable[[dict[str, str]], T], *, skip_bad: bool) -> Lines[T]:
    """`read` turns a line into an item, or raises ValueError saying what is wrong with it, or ImpossibleJob."""
    items: list[T] = []
    refused: list[Refused] = []
    skipped = 0
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        reader = csv.DictReader(file)
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(str(path), "line 1", f"no column {missing[0]!r}", f"columns {', '.join(columns)}")
        for row in reader:
            if not any(row.values()):
                continue
            try:
                if None in row or None in row.values():
                    raise ValueError("another number of fields than the header")
                items.append(read(row))
            except ImpossibleJob as impossible:
                refused.append(impossible.refused)
            except ValueError as error:
                if not skip_bad:
                    raise InputError(str(path), f"line {reader.line_num}", str(error), "a line as the others") from None
                skipped += 1
    if not items and not refused:
        raise InputError(str(path), "the file", "no usable line", "at least one")
    return Lines(tuple(items), skipped, tuple(refused))


def number(row: dict[str, str], column: str, least: float = 0.0) -> float:
    try:
        value = float(row[column])
    except ValueError:
        raise ValueError(f"{column} {row[column]!r} is no number") from None
    if not least <= value < 1e15:
        raise ValueError(f"{column} {row[column]!r} is not at least {least:g}")
    return value


def whole(row: dict[str, str], column: str, least: int = 1) -> int:
    value = number(row, column, least)
    if value != int(value):
        raise ValueError(f"{column} {row[column]!r} is no whole number")
    return int(value)


def known_model(row: dict[str, str], models: Container[str]) -> str:
    model = row["model_name"]
    if model not in models:
        raise ImpossibleJob(row["job_id"], f"no model {model!r} is known")
    return model


def iterations(row: dict[str, str]) -> int:
    count = whole(row, "iterations", 0)
    if not count:
        raise ImpossibleJob(row["job_id"], "it has 0 iterations")
    return count

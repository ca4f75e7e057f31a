"""CSV files as people publish them: a header, then lines, some of which may be wrong.

A wrong line is named with file and line number. Whether it ends the reading or is skipped and counted is the user's
choice: a trace may have been cut off by a crash, but silence about it would change every result.

A line that is well formed but asks for what cannot be (an unknown model, no iterations) is a refused job: it is named
with its reason, and the rest goes on.
"""

import csv
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from flowcore.fields import InputError

T = TypeVar("T")


class ImpossibleJob(ValueError):
    """Well formed, but it cannot run; str() says why."""


@dataclass(frozen=True, slots=True)
class Lines(Generic[T]):
    items: tuple[T, ...]
    skipped: int
    refused: Mapping[str, str] = field(default_factory=dict)  # line: why


def read_lines(
    path: Path, columns: Sequence[str], read: Callable[[dict[str, str]], T], *, skip_bad: bool
) -> Lines[T]:
    """`read` turns a line into an item, or raises ValueError saying what is wrong with it."""
    items: list[T] = []
    skipped = 0
    refused: dict[str, str] = {}
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
            except ImpossibleJob as reason:
                refused[f"line {reader.line_num}"] = str(reason)
            except ValueError as error:
                if not skip_bad:
                    raise InputError(
                        str(path), f"line {reader.line_num}", str(error), "a line as the others"
                    ) from None
                skipped += 1
    if not items:
        raise InputError(str(path), "the file", "no usable line", "at least one")
    return Lines(tuple(items), skipped, refused)


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
        raise ImpossibleJob(f"no model {model!r} is known")
    return model


def iterations(row: dict[str, str]) -> int:
    count = whole(row, "iterations", 0)
    if not count:
        raise ImpossibleJob("it has no iterations")
    return count

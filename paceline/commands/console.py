"""Output for people and programs: tables or one JSON object on stdout, progress on stderr."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table


def print_json(document: Mapping[str, object]) -> None:
    """Keys in the order given; NaN and Infinity are no JSON, so they fail here and not at the reader."""
    print(json.dumps(document, indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The first column is names, the others are numbers."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    # No markup: job names come from files and may contain brackets.
    console = Console(markup=False, highlight=False)
    with console.capture() as text:
        console.print(table)
    print(text.get(), end="")  # not by rich, which would exit by itself where the pipe is closed


def progress_bar() -> AbstractContextManager[Progress]:
    """On stderr where that is a terminal; gone when done."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )

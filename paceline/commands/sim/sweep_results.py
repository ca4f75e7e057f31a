"""The file of a sweep's results, as a person may have named it: it need not be one."""

from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError


def stored_rows(path: Path) -> list[dict[str, Any]]:
    """The runs in the file, none where there is no file; raises CommandError for a file that is no text."""
    from paceline.sim.trace.sweep import read_rows

    try:
        rows = read_rows(path)
    except UnicodeDecodeError:
        raise no_results(path) from None
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("run"), dict)]


def no_results(path: Path) -> CommandError:
    return CommandError(f"{path}: found something else, expected the results of a sweep (JSON lines)")

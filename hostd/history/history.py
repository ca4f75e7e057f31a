"""The history's files: `history.jsonl`, and the one before, `history.jsonl.1`.

Bounded: a file that has MOST_BYTES becomes the one before. Nothing depends on it: a directory that cannot be written to
ends the history with a line in the log, and nothing else.
"""

import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hostd.history.line import Minute

_log = logging.getLogger(__name__)

NAME, BEFORE = "history.jsonl", "history.jsonl.1"
MOST_BYTES = 16_000_000  # each; eight jobs write some 1.5 MB a day


class History:
    """None for the directory: there is none."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    @property
    def is_kept(self) -> bool:
        return self._directory is not None

    def write(self, minutes: Iterable[Minute]) -> None:
        text = "".join(one.to_line() for one in minutes)
        if self._directory is None or not text:
            return
        path = self._directory / NAME
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
                size_bytes = file.tell()
            if size_bytes >= MOST_BYTES:
                path.replace(self._directory / BEFORE)
        except OSError as error:
            _log.warning("no history from now on: %s", error)
            self._directory = None


def state_directory(configured: Path | None) -> Path | None:
    """As configured, or as systemd says (StateDirectory=)."""
    if configured is not None:
        return configured
    first = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    return Path(first) if first else None


def read_history(directories: Sequence[Path], since_s: float | None = None) -> Iterator[Minute]:
    """Of the last so many seconds; raises OSError where there is none."""
    begin_s = 0.0 if since_s is None else time.time() - since_s
    for directory in directories:
        paths = [directory / BEFORE] if (directory / BEFORE).exists() else []
        for path in (*paths, directory / NAME):
            with path.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    minute = Minute.from_line(line)
                    if minute is not None and minute.time_s >= begin_s:
                        yield minute

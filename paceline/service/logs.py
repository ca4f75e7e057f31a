"""Logs on stderr: an event is one line, whatever is in it.

A machine reads one JSON object a line, in ASCII: ts (ISO 8601, UTC), level, logger, message, then the fields passed
through `extra` (job, flow, host, switch …). A person at a terminal reads the same as text. Much of the content comes
from peers: it is cut to MAX_CHARS and escaped, and nothing in it can raise, end the line or reach the terminal.
"""

import asyncio
import json as json_format
import logging
import math
import os
import sys
from datetime import UTC, datetime
from typing import TextIO

from paceline.flowcore.model.fields import printable

MAX_CHARS = 2000  # of a message or a field: a peer may send megabytes where a name was expected
MAX_ITEMS = 50  # of a list
MAX_TRACEBACK_CHARS = 20_000

# What `logging` itself puts on a record; all else came through `extra`.
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_RESERVED = {"ts", "level", "logger", "message", "exception"}


def setup(level: str | int = "INFO", json: bool | None = None) -> None:
    """Sends all logs and warnings of this process to stderr; `json` None: JSON unless stderr is a terminal."""
    if json is None:
        json = not sys.stderr.isatty()
    handler = _Stderr()
    handler.setFormatter(JsonLines() if json else ReadableLines())
    handler.addFilter(_is_no_cancellation)
    logging.captureWarnings(True)
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _Stderr(logging.StreamHandler[TextIO]):
    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk or a closed pipe costs the line, never the daemon."""


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """A call that was cancelled because its peer left or the daemon stops is no error, though gRPC logs it as one."""
    return not (record.exc_info and record.exc_info[0] is asyncio.CancelledError)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _plain(_message(record)),
        }
        line |= {key: _plain(value) for key, value in _fields(record).items()}
        if record.exc_info:
            line["exception"] = _without_surrogates(self.formatException(record.exc_info)[-MAX_TRACEBACK_CHARS:])
        return json_format.dumps(line, allow_nan=False)


class ReadableLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone()
        message = printable(str(_plain(_message(record))))
        line = f"{time:%H:%M:%S}.{record.msecs:03.0f} {record.levelname:<8} {record.name}: {message}"
        line += "".join(f"  {key}={printable(str(_plain(value)))}" for key, value in _fields(record).items())
        if record.exc_info:
            traceback = self.formatException(record.exc_info)[-MAX_TRACEBACK_CHARS:]
            line += "".join(f"\n    {printable(text)}" for text in traceback.splitlines())
        return line


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the arguments do not fit the text, or one of them cannot be shown
        return f"{record.msg} (its arguments cannot be shown)"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = {key: value for key, value in vars(record).items() if key not in _OWN}
    return {f"{key}_" if key in _RESERVED else printable(key): value for key, value in fields.items()}


def _plain(value: object) -> object:
    """The value as JSON can hold it, of bounded size."""
    match value:
        case None | bool():
            return value
        case int() if value.bit_length() <= 64:
            return value
        case float() if math.isfinite(value):
            return value
        case str():
            return _without_surrogates(value if len(value) <= MAX_CHARS else value[: MAX_CHARS - 1] + "…")
        case list() | tuple() | set() | frozenset():
            items = list(value)[:MAX_ITEMS]
            return [_plain(item if isinstance(item, str | int | float) else _shown(item)) for item in items]
    return _plain(_shown(value))


def _shown(value: object) -> str:
    try:
        return str(value) if isinstance(value, Exception | os.PathLike) else repr(value)
    except Exception:  # an integer of over 4300 digits, or a __repr__ that fails
        return f"a {type(value).__name__} that cannot be shown"


def _without_surrogates(text: str) -> str:
    """Bytes that were no UTF-8 come as lone surrogates, which strict readers of JSON refuse."""
    return text.encode("utf-8", "backslashreplace").decode()

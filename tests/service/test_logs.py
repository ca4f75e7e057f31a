"""An event is one line, whatever is in it."""

import io
import json
import logging
import os
import subprocess
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.service import logs

RECORD_KEYS = st.text(min_size=1).filter(lambda key: key not in logs._OWN)


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def formatted(formatter: logging.Formatter, message: object, *arguments: object, **extra: object) -> str:
    record = logging.makeLogRecord({"name": "hostd", "levelname": "INFO", "msg": message, "args": arguments} | extra)
    return formatter.format(record)


def test_an_object_has_the_promised_keys() -> None:
    line = json.loads(formatted(logs.JsonLines(), "rate of %s", "a", job="bert", rate_bps=5e8, created=0.0))
    assert line == {
        "ts": "1970-01-01T00:00:00.000+00:00",
        "level": "info",
        "logger": "hostd",
        "message": "rate of a",
        "job": "bert",
        "rate_bps": 5e8,
    }


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


# Surrogates too: that is how bytes that are no UTF-8 arrive.
@given(st.text(st.characters()), st.dictionaries(RECORD_KEYS, ANYTHING, max_size=4))
def test_any_content_is_one_line(message: str, fields: dict[str, object]) -> None:
    line = formatted(logs.JsonLines(), message, **fields)
    assert line.isascii()
    assert "\n" not in line
    decoded = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    json.dumps(decoded, ensure_ascii=False).encode()  # no lone surrogate
    assert decoded["logger"] == "hostd"
    assert formatted(logs.ReadableLines(), message, **fields).isprintable()


UNSHOWABLE = [Unshowable(), 10**5000, [Unshowable()], [10**5000], {(1,): Unshowable()}]


@pytest.mark.parametrize("value", UNSHOWABLE, ids=range(len(UNSHOWABLE)))  # pytest cannot show them either
def test_what_cannot_be_shown_is_said_so(value: object) -> None:
    assert "cannot be shown" in str(json.loads(formatted(logs.JsonLines(), "m", value=value))["value"])


def test_content_is_cut() -> None:
    line = formatted(logs.JsonLines(), "x" * 10**6, name_given=["y" * 10**5] * 1000, other=b"z" * 10**6)
    assert len(line) < 60 * logs.MAX_CHARS


def test_a_field_cannot_pose_as_ours() -> None:
    line = json.loads(formatted(logs.JsonLines(), "m", level="debug", ts="never"))
    assert (line["level"], line["level_"], line["ts_"]) == ("info", "debug", "never")


@pytest.mark.parametrize("arguments", [("one", "too many"), (Unshowable(),)], ids=["many", "unshowable"])
def test_wrong_arguments_keep_the_text(arguments: tuple[object, ...]) -> None:
    assert json.loads(formatted(logs.JsonLines(), "plan of %s", *arguments))["message"].startswith("plan of %s")


def test_an_exception_stays_inside_its_line() -> None:
    try:
        raise ValueError("first\nsecond \x1b[31m")
    except ValueError:
        failure = sys.exc_info()
    line = formatted(logs.JsonLines(), "failed", exc_info=failure)
    assert "second" in json.loads(line)["exception"]
    assert "\n" not in line
    readable = formatted(logs.ReadableLines(), "failed", exc_info=failure)
    assert all(text.isprintable() for text in readable.splitlines())


@pytest.fixture
def restored_logging():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []  # pytest's own must not be closed
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "wanted", "is_json"),
    [(io.StringIO(), None, True), (Terminal(), None, False), (Terminal(), True, True), (io.StringIO(), False, False)],
)
def test_a_terminal_gets_readable_lines(stream, wanted, is_json, monkeypatch, restored_logging) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    logs.setup("WARNING", json=wanted)
    logging.getLogger("switchd").info("too quiet to be seen")
    logging.getLogger("switchd").warning("refused", extra={"host": "h0"})
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("{") is is_json
    assert line.endswith('"host": "h0"}' if is_json else "WARNING  switchd: refused  host=h0")


def test_setup_twice_logs_once_and_takes_warnings(monkeypatch, restored_logging) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.setup(json=True)
    logs.setup(json=True)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old\nway", DeprecationWarning, stacklevel=1)
    (line,) = stream.getvalue().splitlines()
    assert "way" in json.loads(line)["message"]


def test_a_closed_stderr_costs_the_line_only() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = "import logging; from paceline.service import logs; logs.setup(); logging.error('x'); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=write_end, timeout=60)
    os.close(write_end)
    assert done.stdout == b"alive\n"


def test_a_cancelled_call_is_no_error() -> None:
    script = """
import asyncio, logging
from paceline.service import logs
logs.setup(json=True)
for kind in (asyncio.CancelledError, ValueError):
    try:
        raise kind
    except BaseException:
        logging.getLogger("grpc").exception("not handled")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    assert "ValueError" in json.loads(line)["exception"]

"""What a command printed."""

import json
from typing import Any

import pytest

from paceline.cli import main


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Of a refused command: nothing on stdout, one line on stderr."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("paceline: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    return err


def run_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, Any]]:
    """The JSON object that the command prints, as text and read; nothing on stderr."""
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out, json.loads(out, parse_constant=pytest.fail)  # NaN and Infinity are no JSON

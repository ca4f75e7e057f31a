"""On a terminal without Unicode, bars and tables stay readable."""

import io
import os
import subprocess
import sys
from pathlib import Path

from paceline.commands import plain_text
from paceline.commands.view.heat_map import SHADES
from paceline.commands.view.host_view import bar

ROOT = Path(__file__).parents[2]


def in_ascii(text: str) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors=plain_text.register())
    stream.write(text)
    stream.flush()
    return raw.getvalue().decode()


def test_bars_and_shades_can_be_told_apart() -> None:
    assert in_ascii(bar(0.5)) == "####...."
    assert len(set(in_ascii(SHADES))) >= 4 and "?" not in in_ascii(SHADES)
    assert in_ascii("3 × 25 µs … – ≥ é") == "3 x 25 us ~ - > ?", "one for one, so that columns stay"


def test_a_command_in_the_c_locale() -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    command = [sys.executable, "-m", "paceline", "sim", "run", "scenarios/two-jobs.toml", "--policy", "fair"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=120)
    assert done.returncode == 0 and b"?" not in done.stdout and done.stdout.isascii()

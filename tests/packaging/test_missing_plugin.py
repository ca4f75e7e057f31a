"""An installation without a compiler has no NCCL plugin: `run` and `probe` say so, and jobs run all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.output import run_json


@pytest.fixture
def without_plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    library = tmp_path / "libpaceline_shim.so"
    monkeypatch.setenv("PACELINE_SHIM_LIBRARY", str(library))
    monkeypatch.setenv("PACELINE_SHM_DIR", str(tmp_path))
    return library


def test_run_says_it_in_one_line(without_plugin: Path) -> None:
    command = [sys.executable, "-m", "paceline", "run", "--", sys.executable, "-c", "print('trained')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "trained\n"
    assert done.stderr.startswith(f"paceline run: NCCL's traffic is not counted: {without_plugin}: ")
    assert done.stderr.count("\n") == 1


def test_probe_says_it_and_what_to_do(without_plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = run_json(["probe"], capsys)
    [plugin] = [finding for finding in found["findings"] if finding["name"] == "NCCL plugin"]
    assert not plugin["usable"] and str(without_plugin) in plugin["reason"] and "compiler" in plugin["advice"]

"""MPS is started where there is one, stopped afterwards, and never beside somebody else's."""

import os
from pathlib import Path

import pytest

from bench.testbed import accelerator
from bench.testbed.accelerator import kernels_side_by_side

CONTROL = """#!/bin/sh
if [ "$1" = -d ]; then echo "started in $CUDA_MPS_PIPE_DIRECTORY"; else cat; fi >> "$SAID"
exit ${FAILS:-0}
"""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a driver's command was told."""
    command = tmp_path / "nvidia-cuda-mps-control"
    command.write_text(CONTROL)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(accelerator, "_MPS_DEFAULT", tmp_path / "nowhere")
    monkeypatch.setattr(accelerator, "has_gpu", lambda: True)
    return tmp_path / "said"


def test_it_runs_for_as_long_as_it_is_needed(said: Path) -> None:
    with kernels_side_by_side() as has_mps:
        place = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
        with kernels_side_by_side() as again:  # of a process that was started inside
            assert has_mps and again
    assert said.read_text().splitlines() == [f"started in {place}", "quit"]
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ and not Path(place).exists()


def test_without_it_runs_are_made_all_the_same(said: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", "1")
    with kernels_side_by_side() as has_mps:
        assert not has_mps and "CUDA_MPS_PIPE_DIRECTORY" not in os.environ

"""The overhead measurement: its job, its arguments and its arithmetic."""

import subprocess
import sys
from pathlib import Path

import pytest

from nccl_shim.overhead import __main__ as overhead

pytestmark = pytest.mark.torch


def test_wrong_arguments_are_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nccl_shim.overhead", "--iterations", "1"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1


def test_the_overhead_job_pairs_iterations_with_and_without() -> None:
    pytest.importorskip("torch", reason="the torch extra is not installed")
    result = overhead.run_job(True, "--layers", "1", "--width", "32", "--iterations", "10", "--paired")
    assert {name: [len(block) for block in blocks] for name, blocks in result["blocks"].items()} == {
        "with": [2] * 5, "without": [2] * 5,
    }  # fmt: skip


def test_the_interval_holds_the_median() -> None:
    slow_when_first = {"with": [1.03, 1.04, 1.05] * 20, "without": [0.97, 0.96, 0.98] * 20}
    low, high = overhead.interval(slow_when_first)
    assert low <= overhead.balanced(slow_when_first) <= high
    assert overhead.balanced(slow_when_first) == pytest.approx((1.04 * 0.97) ** 0.5)

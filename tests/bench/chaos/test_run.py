"""A short run of real daemons and jobs: whatever happens to them, no harm is done.

Times are judged generously here: the machine may be busy. `paceline bench chaos` itself is stricter.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
GENEROUS_S = 5.0
HARMLESS = (
    "no job sees an error",
    "every job is controlled 20 s after the faults",
    "no daemon ends by itself",
    "no daemon logs an exception",
    "at the end everything is as it was found",
    "nothing is left behind",
)


@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        (1, "kill-hostd,stop-switchd,delete-qdisc,full-disk"),
    ],
)
def test_a_short_run_does_no_harm(seed: int, kinds: str) -> None:
    command = [sys.executable, "-m", "paceline", "bench", "chaos", "--synthetic", "--json"]
    command += ["--duration", "11", "--base", "3", "--seed", str(seed), "--kinds", kinds]
    # In a process of its own: it changes its mounts.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, env=dict(os.environ))
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(done.stdout)
    broken = {one["promise"]: one["broken"] for one in result["promises"] if not one["kept"]}
    assert not broken.keys() & set(HARMLESS), broken
    assert (done.returncode == 0) == (not broken)
    assert len(result["faults"]) >= 2 and result["seed"] == seed and "commit" in result
    for fault in result["faults"]:
        assert fault["lifted_s"] is None or fault["lifted_s"] < GENEROUS_S
        assert fault["lost_s"] < 10 * GENEROUS_S
    assert all(job["iterations"] > 20 and not job["errors"] for job in result["jobs"])

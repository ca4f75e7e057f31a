"""The testbed without root: as an ordinary user, and through the exec that `ensure_networks` does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[3]
ORDINARY_USER = 65534  # nobody

# As root once before the user changes, so that everything is imported: the interpreter may lie where only root looks.
AS_A_USER = f"""
import ctypes, json, os
from bench.testbed.network import Testbed
from bench.testbed.rootless import enter_user_namespace, may_make_networks
from paceline.flowcore.model.topology import star
from tests.bench.testbed.traffic import send
def star_under(control):
    with Testbed(star(2, 1.0), control) as testbed:
        return send(testbed, "h0", "h1", 1_000_000), testbed.link_bytes()
if os.getuid() == 0:
    may_make_networks(), star_under("reno")
    os.setgroups([])
    os.setresgid({ORDINARY_USER}, {ORDINARY_USER}, {ORDINARY_USER})
    os.setresuid({ORDINARY_USER}, {ORDINARY_USER}, {ORDINARY_USER})
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: or /proc/self would still be root's
before = may_make_networks(), os.getuid()
enter_user_namespace()
transfer, carried = star_under("bbr")
print(json.dumps([before, transfer.received_bytes, transfer.congestion_control, carried]))
"""

THROUGH_EXEC = """
import json
from bench.testbed.network import Testbed
from bench.testbed.rootless import ensure_networks, may_make_networks
from paceline.flowcore.model.topology import star
from tests.bench.testbed.traffic import send
ensure_networks()
with Testbed(star(2, 1.0)) as testbed:
    print(json.dumps([may_make_networks(), send(testbed, "h0", "h1", 100_000).received_bytes]))
"""
# A root that may not: what is dropped from the bounding set does not come back with the exec.
WITHOUT_CAPABILITIES = """
import ctypes, os, sys
for capability in (12, 21):
    ctypes.CDLL(None).prctl(24, capability)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def printed(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, cwd=ROOT, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_ordinary_user_brings_up_a_star_and_moves_bytes() -> None:
    (could, user), received_bytes, control, carried = printed("-c", AS_A_USER)
    assert not could
    assert user != 0
    assert received_bytes == 1_000_000
    assert control == ["bbr", "bbr"]
    assert carried["h0->sw"] > 1_000_000 < carried["sw->h1"]


def test_a_process_that_may_not_starts_itself_anew() -> None:
    assert printed("-c", WITHOUT_CAPABILITIES, "-c", THROUGH_EXEC) == [True, 100_000]


def test_jobs_run_under_the_daemons_without_root(small: Path) -> None:
    command = ["-m", "paceline", "bench", "jobs", str(small), "--workload", "synthetic", "--json"]
    report = printed("-c", WITHOUT_CAPABILITIES, *command, "--control", "cubic,paceline")
    assert report["network_bytes_checked"]
    cubic, paceline = report["controls"]
    assert all(job["finished"] for control in (cubic, paceline) for job in control["jobs"])
    assert paceline["host_cpu_percent"] > 0
    assert paceline["fail_opens"] == 0

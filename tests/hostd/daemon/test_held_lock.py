"""A job that keeps its sockets' locks: hostd goes on, and whatever happens to hostd, other jobs run free in time.

As in test_safety.py the configuration believes in a twentieth of the real link, and both jobs are held at that.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment
from hostd.kernel.calls import RELEASE_S
from tests.hostd.cluster import LINK_GBPS, SETTLED_S, Cluster, edit, joined
from tests.hostd.conftest import wait_until
from tests.hostd.daemon.holding_job import ITERATIONS
from tests.hostd.daemon.test_safety import HELD_PART, SLOT_MS, TEN_SLOTS_S
from tests.hostd.missing_page import DEVICE

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(not DEVICE.exists(), reason="needs userfaultfd"),
]

HOLDING = "tests.hostd.daemon.holding_job"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        modules = ["bench.workload.synthetic", HOLDING]
        yield Cluster(stack.enter_context(ForkServer(modules, fork_server_environment())), stack)


class Beside:
    """A job that goes on, held by hostd, beside one that keeps its sockets' locks."""

    def __init__(self, cluster: Cluster, backend: str) -> None:
        self.cluster = cluster
        self.going = cluster.jobs("going", model_mb=2.5)
        self.sockets = cluster.sockets(self.going)
        self.before = self.state()
        self.daemon = cluster.hostd(backend=backend, slot_ms=SLOT_MS, start=False)
        edit(self.daemon, f"link_gbps = {LINK_GBPS}", f"link_gbps = {HELD_PART * LINK_GBPS}")
        cluster.start(self.daemon)
        self.holding = cluster.jobs("holding", model_mb=0.5, module=HOLDING)
        [holding] = [process for process in self.holding.processes if process.spec.host == "h0"]
        self.pids = {str(holding.pid)}
        cluster.run(self.holding, lambda: joined(self.daemon) == {"going", "holding"})
        assert len(holding.numbers) < ITERATIONS, "it is controlled before it keeps the lock"
        cluster.run(self.holding, lambda: len(holding.numbers) == ITERATIONS)
        cluster.run(self.going, self.is_named)

    def is_named(self) -> bool:
        """The process that is left alone."""
        return self.pids <= self.daemon.status()["invisible"].keys()

    def state(self) -> object:
        """Of the device, and of the sockets of the job that goes on."""
        return self.cluster.state(self.sockets)

    def is_free_within(self, limit_s: float) -> None:
        assert wait_until(lambda: self.state() == self.before) < limit_s


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def beside(cluster: Cluster, backend: str) -> Beside:
    return Beside(cluster, backend)


@pytest.mark.parametrize("backend", ["htb", "pacing"])
def test_hostd_goes_on_and_a_new_one_begins_when_it_is_killed(beside: Beside) -> None:
    before = beside.daemon.status()
    iterations = len(beside.going.processes[0].numbers)
    beside.cluster.pause(beside.going, 3.0)
    after = beside.daemon.status()
    assert len(beside.going.processes[0].numbers) > iterations
    assert after["fail_opens"] == 0 and after["guardian_pid"] == before["guardian_pid"]
    slots = after["slot"] - before["slot"]
    assert slots > 20 and after["missed_slots"] - before["missed_slots"] < slots / 10
    beside.daemon.process.kill()
    beside.is_free_within(TEN_SLOTS_S)
    beside.daemon.process.wait()
    begun_s = time.monotonic()
    beside.cluster.start(beside.daemon)
    assert time.monotonic() - begun_s < SETTLED_S
    beside.cluster.run(beside.going, lambda: "going" in joined(beside.daemon))
    beside.cluster.run(beside.going, beside.is_named)
    assert beside.daemon.stop() == 0
    assert beside.state() == beside.before


@pytest.mark.parametrize(("backend", "hangs"), [("htb", False), ("htb", True), ("pacing", False)])
def test_a_release_returns_and_says_what_it_could_not_reach(beside: Beside, hangs: bool) -> None:
    if hangs:  # then it is the guardian's, and the command's own
        beside.daemon.signal(signal.SIGSTOP)
        beside.is_free_within(TEN_SLOTS_S)
        (beside.daemon.place / "control.sock").unlink()
    command = [sys.executable, "-m", "paceline", "release", "--all", "--runtime-directory", str(beside.daemon.place)]
    begun_s = time.monotonic()
    with beside.cluster.testbed.nodes["h0"].enter():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert time.monotonic() - begun_s < RELEASE_S + 5.0  # an interpreter and what it imports
    assert beside.state() == beside.before
    said = done.stdout + done.stderr
    assert done.returncode == 1 and all(pid in said for pid in beside.pids), said
    os.kill(beside.daemon.process.pid, signal.SIGCONT)

"""Whose processes the jobs without the shim are; and such a job from end to end: seen, paced, and whole."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostd.monitor.jobs_without_shim import JobWithoutShim, processes_of
from tests.hostd.cluster import Cluster, cluster, flows, fork_server, joined
from tests.hostd.conftest import wait_until

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

MARK = "a-mark-of-this-test"


@pytest.fixture
def sleeper() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()", MARK, str(os.getpid())], stdin=subprocess.PIPE)
    with process:
        wait_until(Path(f"/proc/{process.pid}/cmdline").read_bytes)  # an exec shows none for a moment
        yield process.pid
        process.kill()


def test_by_command_cgroup_or_pid(sleeper: int) -> None:
    own = f"*input()* {MARK} {os.getpid()}"
    assert processes_of([JobWithoutShim("a", command=own)]) == {"a": {sleeper}}
    assert processes_of([JobWithoutShim("a", command=own[1:])]) == {}, "it is about the whole command line"
    assert processes_of([JobWithoutShim("a", pid=sleeper)]) == {"a": {sleeper}}
    group = Path(f"/proc/{sleeper}/cgroup").read_text().splitlines()[-1].split(":", 2)[-1]
    assert sleeper in processes_of([JobWithoutShim("a", cgroup=group)])["a"]
    assert processes_of([JobWithoutShim("a", cgroup=group + "/not-there")]) == {}


def test_the_first_entry_counts_and_a_process_with_the_shim_is_left_out(sleeper: int) -> None:
    jobs = [JobWithoutShim("a", pid=sleeper), JobWithoutShim("b", command=f"*{MARK} {os.getpid()}")]
    assert processes_of(jobs) == {"a": {sleeper}}
    assert processes_of(jobs, besides=[sleeper]) == {}
    assert processes_of(jobs, besides=[os.getpid()]) == {}, "nor are those that it started"
    assert processes_of([JobWithoutShim("me", pid=os.getpid())]) == {}


def test_a_job_without_the_shim_is_seen_paced_and_whole(cluster: Cluster) -> None:
    group = cluster.jobs("old")
    pids = {process.spec.host: process.pid for process in group.processes}
    for host in pids:
        for counters in (cluster.directory / host).iterdir():
            counters.unlink()  # it goes on writing, and no process can read it: the same as no shim
    sockets = cluster.sockets(group)
    before = cluster.state(sockets)
    daemon = cluster.hostd(more=f'[[without_shim]]\njob = "legacy"\npid = {pids["h0"]}')
    cluster.run(group, lambda: joined(daemon) == {"legacy"})
    assert cluster.state(sockets) != before
    seen: list[dict[str, Any]] = []

    def is_paced() -> bool:
        seen[:] = [
            flow for flow in flows(daemon.status()) if flow["live"] and flow["sent_bytes"] and flow["kernel_bps"]
        ]
        return bool(seen)

    cluster.run(group, is_paced)
    [flow] = seen
    assert flow["flow"] == "legacy/ring/h0>h1"
    assert abs(flow["size_bytes"] / 1.25e6 - 1514 / 1448) < 0.05, "a ring of two sends its model"
    ended = [len(process.numbers) for process in group.processes]
    # An iteration ends when all its bytes have arrived at both ends.
    cluster.run(group, lambda: all(len(m.numbers) >= n + 10 for m, n in zip(group.processes, ended, strict=True)))
    assert daemon.status()["troubles"] == {} and daemon.stop() == 0
    assert cluster.state(sockets) == before

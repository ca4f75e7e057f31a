"""Jobs that register with hostd: paced as any, found by the next hostd, and safe from a crowd."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostd.registration.registrar import MOST_OF_PROCESS
from tests.hostd.cluster import SETTLED_S, Cluster, cluster, fork_server, joined
from tests.hostd.conftest import PORT, next_line, wait_until
from tests.hostd.daemon.test_crowd import MOST_LATE_PART, NAMES, SOCKETS

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).parents[3]


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208


def test_it_is_paced_and_found_again(cluster: Cluster) -> None:
    daemon = cluster.hostd()
    wait_until(lambda: "jobs register at" in daemon.log())
    group = cluster.jobs("a", "b", registered=True)
    cluster.run(group, lambda: joined(daemon) == {"a", "b"}, 2 * SETTLED_S)
    assert list((cluster.directory / "h0").iterdir()) == []
    status = daemon.status()
    assert status["registrations_refused"] == 0 and status["invisible"] == {}
    assert any(flow["kernel_bps"] for job in status["jobs"] for flow in job["flows"])
    before = descriptors(daemon.pid)
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()
    daemon.await_hostd()
    cluster.run(group, lambda: joined(daemon) == {"a", "b"}, 3 * SETTLED_S)
    assert descriptors(daemon.pid) <= before + 4
    for process in group.processes:
        os.kill(process.pid, 9)
    wait_until(lambda: daemon.status()["jobs"] == [], 5.0)
    assert daemon.stop() == 0 and "Traceback" not in daemon.log()
    assert not (daemon.place / "jobs" / "hostd.sock").exists()


def test_a_file_is_named_once(cluster: Cluster) -> None:
    daemon = cluster.hostd()
    group = cluster.jobs("a", "b")
    cluster.run(group, lambda: joined(daemon) == {"a", "b"}, 2 * SETTLED_S)
    assert daemon.log().count("has its counters in a file") == 1
    assert daemon.stop() == 0


def test_a_crowd_at_the_socket(cluster: Cluster) -> None:
    """A process with 512 names and 1000 sockets that registers whatever it can."""
    daemon = cluster.hostd()
    wait_until(lambda: "jobs register at" in daemon.log())
    group = cluster.jobs("a", model_mb=2.5, registered=True)
    cluster.run(group, lambda: "a" in joined(daemon), 2 * SETTLED_S)

    def missed_part() -> float:
        before = daemon.status()
        cluster.pause(group, 4.0)
        after = daemon.status()
        return float(after["missed_slots"] - before["missed_slots"]) / (after["slot"] - before["slot"])

    alone = missed_part()
    for parent in (daemon.place / "jobs" / "hostd.sock").parents:
        if parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o711)
    address = str(cluster.testbed.addresses.data["h1"])
    cluster.sink(address, PORT)
    socket = str(daemon.place / "jobs" / "hostd.sock")
    arguments = [socket, address, str(PORT), str(NAMES), str(SOCKETS)]
    command = [sys.executable, "-m", "tests.hostd.registration.registering_crowd", *arguments]
    crowd = cluster.testbed.nodes["h0"].popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert next_line(crowd, 60.0) == "crowded"
        newcomer = cluster.jobs("b", registered=True)
        cluster.run(newcomer, lambda: "b" in joined(daemon), 2 * SETTLED_S)
        late = missed_part()
        status = daemon.status()
        print(f"missed {alone:.3f} of slots, {late:.3f} beside the crowd")
        assert late <= alone + MOST_LATE_PART
        assert status["fail_opens"] == 0
        assert status["registrations_refused"] >= NAMES - MOST_OF_PROCESS
    finally:
        crowd.kill()
        crowd.communicate()
    assert daemon.stop() == 0

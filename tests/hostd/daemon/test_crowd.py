"""A user that fills the counters' directory, or has a process with names and sockets without end, delays no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostd.cluster import SETTLED_S, Cluster, cluster, fork_server, joined
from tests.hostd.conftest import PORT, next_line

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
JUNK_FILES = 10_000
NAMES, SOCKETS = 512, 1000
MOST_LATE_PART = 0.1  # of slots, on a busy machine


def hardly_a_slot_is_missed(cluster: Cluster) -> None:
    """A job joins beside the crowd, and goes on."""
    daemon = cluster.hostd()
    group = cluster.jobs("a", model_mb=2.5)
    cluster.run(group, lambda: "a" in joined(daemon), 2 * SETTLED_S)
    before, iterations = daemon.status(), len(group.processes[0].numbers)
    cluster.pause(group, 5.0)
    after = daemon.status()
    slots = after["slot"] - before["slot"]
    assert after["missed_slots"] - before["missed_slots"] <= MOST_LATE_PART * slots
    assert after["fail_opens"] == 0 and len(group.processes[0].numbers) > iterations + 5
    assert daemon.stop() == 0


def test_junk_in_the_directory(cluster: Cluster) -> None:
    """Some of it is as large as a segment."""
    for number in range(JUNK_FILES):
        file = cluster.directory / "h0" / f"{number}-{number}-0.pls"
        file.touch(mode=0o600)
        if number % 10 == 0:
            os.truncate(file, 1 << 20)
    hardly_a_slot_is_missed(cluster)


def test_names_and_sockets_of_one_process(cluster: Cluster) -> None:
    (cluster.directory / "h0").chmod(0o1777)
    for parent in (cluster.directory / "h0").parents:
        if parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o711)
    address = str(cluster.testbed.addresses.data["h1"])
    cluster.sink(address, PORT)
    arguments = [str(cluster.directory / "h0"), address, str(PORT), str(NAMES), str(SOCKETS)]
    command = [sys.executable, "-m", "tests.hostd.daemon.crowding_job", *arguments]
    crowd = cluster.testbed.nodes["h0"].popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert next_line(crowd, 60.0) == "crowded"
        hardly_a_slot_is_missed(cluster)
    finally:
        crowd.kill()
        crowd.communicate()

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
MOST_LATE_PART = 0.1  # of slots more, on a busy machine


class Going:
    """A job that hostd paces, before the crowd comes and beside it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.daemon, self.group = cluster, cluster.hostd(), cluster.jobs("a", model_mb=2.5)
        cluster.run(self.group, lambda: "a" in joined(self.daemon), 2 * SETTLED_S)
        self.alone = self.missed_part()

    def missed_part(self) -> float:
        """Of the slots of a few seconds, those without a decision: some are, on a busy machine."""
        before = self.daemon.status()
        self.cluster.pause(self.group, 4.0)
        after = self.daemon.status()
        return float(after["missed_slots"] - before["missed_slots"]) / (after["slot"] - before["slot"])

    def is_not_delayed(self) -> None:
        newcomer = self.cluster.jobs("b")
        self.cluster.run(newcomer, lambda: "b" in joined(self.daemon), 2 * SETTLED_S)
        assert self.missed_part() <= self.alone + MOST_LATE_PART
        assert self.daemon.status()["fail_opens"] == 0
        assert self.daemon.stop() == 0


def test_junk_in_the_directory_and_names_and_sockets_of_one_process(cluster: Cluster) -> None:
    """Some of the junk is as large as a segment."""
    going = Going(cluster)
    for number in range(JUNK_FILES):
        file = cluster.directory / "h0" / f"{number}-{number}-0.pls"
        file.touch(mode=0o600)
        if number % 10 == 0:
            os.truncate(file, 1 << 20)
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
        going.is_not_delayed()
    finally:
        crowd.kill()
        crowd.communicate()

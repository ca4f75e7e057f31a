"""`paceline top` on a terminal and without one; `q` leaves it."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.hostd.cluster import Cluster, cluster, fork_server

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]


def shown_until_left(command: list[str], key: bytes) -> tuple[int, bytes]:
    """Runs it on a terminal, presses the key once there is a picture; exit status and what was shown."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown, end_s = b"", time.monotonic() + 30
    try:
        while running.poll() is None and time.monotonic() < end_s:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
            if b"h0: observe" in shown:
                os.write(ours, key)
        return running.wait(10), shown
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
        os.close(ours)


def test_q_leaves_top_and_without_a_terminal_it_looks_once(cluster: Cluster) -> None:
    daemon = cluster.hostd(mode="observe")
    command = [sys.executable, "-m", "paceline", "top", "--runtime-directory", str(daemon.place)]
    status, shown = shown_until_left(command, b"q")
    assert status == 0 and b"Traceback" not in shown and b"h0: observe" in shown
    once = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
    assert once.returncode == 0 and once.stdout.startswith("h0: observe") and once.stderr == ""

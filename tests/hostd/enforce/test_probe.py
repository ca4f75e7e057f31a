"""The probe: what it says with and without rights, what `auto` makes of it, and that it changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostd.enforce.probe import Finding, choose, probe
from tests.hostd.conftest import Wire

ROOT = Path(__file__).parents[3]


def test_it_changes_nothing_and_finds_both_backends(wire: Wire) -> None:
    before, descriptors = wire.state(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with wire.here.enter():
        found = {finding.name: finding for finding in probe()}
    assert wire.state() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
    assert found["htb"].usable and found["pacing"].usable and found["device eth0"].usable
    assert choose(found.values()) == "htb"
    assert choose(found.values(), fast_devices=True) == "pacing"


def test_a_foreign_qdisc_is_named(wire: Wire) -> None:
    wire.here.netlink.tc("add", "pfifo", wire.here.index_of("eth0"), 0x30000, limit=10)
    with wire.here.enter():
        found = {finding.name: finding for finding in probe()}
    assert not found["device eth0"].usable
    assert "pfifo" in found["device eth0"].reason and "takeover = true" in found["device eth0"].advice


def test_without_capabilities_htb_is_out_and_says_why() -> None:
    program = (
        "import ctypes; libc = ctypes.CDLL(None); [libc.prctl(24, cap, 0, 0, 0) for cap in range(41)]\n"
        "import os; os.execv(os.sys.executable, [os.sys.executable, '-c', 'from hostd.enforce.probe import *;"
        "f = probe(); print(choose(f)); print(f[0].reason, f[0].advice)'])"
    )
    # Dropped from the bounding set, root's capabilities do not survive an exec.
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines() == ["pacing", "HTB in the kernel: not permitted grant CAP_NET_ADMIN"], done.stderr


@pytest.mark.parametrize(
    ("usable", "chosen"),
    [({"htb", "pacing", "observe"}, "htb"), ({"pacing", "observe"}, "pacing"), ({"observe"}, "observe")],
)
def test_auto_takes_the_first_that_works(usable: set[str], chosen: str) -> None:
    assert choose(Finding(name, name in usable, "") for name in ("htb", "pacing", "observe")) == chosen

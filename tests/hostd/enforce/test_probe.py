"""The probe: what it says with and without rights, what `auto` makes of it, and that it changes nothing."""

import os
import subprocess
import sys
from dataclasses import replace
from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from bench.testbed.namespace import connect
from hostd.enforce.probe import Finding, _reach, carrying, choose, probe
from hostd.kernel.devices import Device, read_devices
from hostd.kernel.netlink import Netlink
from tests.hostd.conftest import HERE, Wire

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[3]
SECOND = IPv4Interface("10.96.0.1/24"), IPv4Interface("10.96.0.2/24")


def test_it_changes_nothing_and_finds_both_backends(wire: Wire) -> None:
    before, descriptors = wire.state(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with wire.here.enter():
        found = {finding.name: finding for finding in probe()}
    assert wire.state() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
    assert found["htb"].usable and found["pacing"].usable and found["device eth0"].usable
    assert choose(found.values()) == "htb"


def test_a_foreign_qdisc_is_named_and_auto_goes_around_it(wire: Wire) -> None:
    connect(wire.here, "eth1", wire.there, "eth1", SECOND)
    wire.here.netlink.tc("add", "pfifo", wire.here.index_of("eth0"), 0x30000, limit=10)
    with wire.here.enter():
        found = {finding.name: finding for finding in probe()}
        with Netlink() as netlink:
            devices = read_devices(netlink)
    assert not found["device eth0"].usable and found["device eth1"].usable
    assert "pfifo" in found["device eth0"].reason and "takeover = true" in found["device eth0"].advice
    ours, other = carrying(devices, {str(HERE.ip)}), carrying(devices, {str(SECOND[0].ip), "192.0.2.1"})
    assert [device.name for device in (*ours, *other)] == ["eth0", "eth1"]
    assert carrying(devices) == [*ours, *other]
    assert choose(found.values(), ours) == choose(found.values(), carrying(devices)) == "pacing"
    assert choose(found.values(), other) == choose(found.values(), ours, takeover=True) == "htb"
    found["pacing"] = Finding("pacing", False, "")
    assert choose(found.values(), ours) == "htb", "it may work on other devices, and says what is in the way"


def test_auto_paces_where_one_lock_would_be_the_bottleneck(monkeypatch: pytest.MonkeyPatch) -> None:
    """No namespace has such a device."""
    works = [Finding(name, True, "") for name in ("htb", "pacing", "observe")]
    device = Device(2, "eth0", frozenset({"10.0.0.1"}), 65536, 65536, queues=64, loopback=False)
    for speed_bps, chosen in ((100e9, "pacing"), (10e9, "htb"), (None, "htb")):
        monkeypatch.setattr("hostd.enforce.probe.link_speed_bps", {"eth0": speed_bps}.get)
        assert choose(works, [device]) == chosen
        assert choose(works, [replace(device, queues=1)]) == "htb"


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
    ("capabilities", "fdinfo_mode", "says"),
    [
        (0, 0o555, "our own user only; grant CAP_SYS_PTRACE"),
        (1 << 19, 0o500, "our own user only; needs Linux 5.14"),
        (1 << 19, 0o555, "of every user; "),
        (1 << 19 | 1 << 2, 0o500, "of every user; "),
    ],
)
def test_whose_sockets_are_in_reach(capabilities: int, fdinfo_mode: int, says: str) -> None:
    found = _reach(capabilities, fdinfo_mode)
    assert found.usable and says in f"{found.reason}; {found.advice}"


@pytest.mark.parametrize(
    ("usable", "chosen"),
    [({"htb", "pacing", "observe"}, "htb"), ({"pacing", "observe"}, "pacing"), ({"observe"}, "observe")],
)
def test_auto_takes_the_first_that_works(usable: set[str], chosen: str) -> None:
    assert choose(Finding(name, name in usable, "") for name in ("htb", "pacing", "observe")) == chosen

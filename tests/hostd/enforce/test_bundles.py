"""How long the bundles are that a device sends: a real device, and how many flows of jobs leave through it."""

from pathlib import Path

import pytest

from hostd.enforce.htb import HtbBackend
from hostd.enforce.htb_device import FEW_FLOWS
from hostd.kernel.devices import read_devices
from hostd.kernel.netlink import Netlink
from hostd.safety.undo_log import UndoLog
from tests.hostd.conftest import FLOW, Wire

pytestmark = pytest.mark.root


def test_with_few_flows_a_device_sends_bundles_as_long_as_before(wire: Wire, tmp_path: Path) -> None:
    wire.sink()
    before, sockets = wire.state(), wire.send(FEW_FLOWS + 1).sockets(FEW_FLOWS + 1)
    longest = []
    with wire.here.enter(), Netlink() as netlink:
        backend = HtbBackend(UndoLog(tmp_path / "lease.json"), lambda device: 1e9)
        for number, one in enumerate(sockets):
            assert backend.attach(FLOW._replace(job=f"job{number}"), [one]) == []
            longest.append(read_devices(netlink)["eth0"].gso_max_bytes)
        backend.close()
    assert longest == [65536] * FEW_FLOWS + [40_000]
    assert wire.state() == before

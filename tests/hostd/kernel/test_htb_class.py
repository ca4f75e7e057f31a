"""HTB classes as bytes. What we send has the shape of what the kernel answers, so one reads back the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.testbed.namespace import Namespace
from hostd.enforce.htb_device import HtbDevice
from hostd.kernel.devices import read_devices
from hostd.kernel.htb_class import class_message, rates_of
from hostd.kernel.netlink import Netlink
from hostd.safety.undo_log import UndoLog

RATES = st.floats(1e6, 1e13)


@given(RATES, RATES)
def test_rates_come_back_to_the_byte(rate_bps: float, ceiling_bps: float) -> None:
    message = class_message(3, 0x0ACE_0002, 0x0ACE_0001, rate_bps, ceiling_bps, 8192)
    handle, rate, ceiling = rates_of(message.body)
    assert handle == 0x0ACE_0002
    assert rate == pytest.approx(rate_bps, abs=8)
    assert ceiling == pytest.approx(ceiling_bps, abs=8)


@pytest.mark.parametrize("rate_bps", [1e8, 34e9, 34.4e9, 100e9, 400e9, 1.6e12])
def test_the_kernel_reads_rates_beyond_32_bits(rate_bps: float, tmp_path) -> None:
    with Namespace("one") as one, one.enter(), Netlink() as netlink:
        tree = HtbDevice(netlink, UndoLog(tmp_path / "lease"), read_devices(netlink)["lo"], None, None, False)
        assert netlink.send(tree.set_class(5, rate_bps, 2 * rate_bps)) == {}
        assert tree.rates()[5] == pytest.approx((rate_bps, 2 * rate_bps), abs=8)

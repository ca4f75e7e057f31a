"""What a device is, as the namespace that it is in sees it."""

import pytest

from hostd.kernel.devices import link_speed_bps
from tests.hostd.conftest import Wire

pytestmark = pytest.mark.root


def test_the_speed_is_that_of_the_device_in_our_namespace(wire: Wire) -> None:
    wire.here.netlink.link("set", index=wire.here.index_of("eth0"), state="down")
    wire.here.netlink.link("set", index=wire.here.index_of("eth0"), ifname="only-here")
    assert link_speed_bps("only-here") is None
    with wire.here.enter():
        assert link_speed_bps("only-here") == 10e9  # what every veth says
        assert link_speed_bps("lo") is None and link_speed_bps("none") is None

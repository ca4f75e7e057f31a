"""Netlink as bytes: attributes, and many messages in one send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.testbed.namespace import Namespace
from hostd.enforce.htb_device import MAJOR
from hostd.kernel.devices import read_devices
from hostd.kernel.netlink import Netlink, attribute, attributes, means_absent, value_of
from hostd.kernel.qdisc_tree import RTM_NEWQDISC, TC_H_ROOT, Node, delete_root, read_tree

pytestmark = pytest.mark.root


@given(st.dictionaries(st.integers(1, 0x3FFF), st.binary(max_size=40)))
def test_attributes_come_back(values: dict[int, bytes]) -> None:
    raw = b"".join(attribute(kind, value) for kind, value in values.items())
    assert attributes(raw) == values
    assert all(value_of(raw, kind) == value for kind, value in values.items()) and not value_of(raw, 0)


@given(st.binary(max_size=60))
def test_garbage_is_no_attribute_and_no_crash(raw: bytes) -> None:
    assert all(value_of(raw, kind) for kind, value in attributes(raw).items() if value)


def test_one_of_many_messages_fails_and_the_rest_are_performed() -> None:
    with Namespace("one") as one, one.enter(), Netlink() as netlink:
        good = Node("pfifo", MAJOR, TC_H_ROOT, 0, b"").message(RTM_NEWQDISC, 1)
        # 300: more than one batch; each but the last deletes what is not there.
        failed = netlink.send([delete_root(1, 0x0BAD_0000)] * 300 + [good])
        assert sorted(failed) == list(range(300))
        assert all(means_absent(error) or error.errno for error in failed.values())
        assert [node.kind for node in read_tree(netlink, 1).qdiscs] == ["pfifo"]


def test_a_missing_device_is_absent() -> None:
    with Namespace("one") as one, one.enter(), Netlink() as netlink:
        [error] = netlink.send([delete_root(99, MAJOR)]).values()
        assert means_absent(error)


def test_messages_are_numbered_anew_before_their_numbers_are_used_up() -> None:
    """In some weeks; a message that cannot be packed ended hostd."""
    with Netlink() as netlink:
        netlink._sequence = 2**32 - 3
        for _ in range(4):
            assert read_devices(netlink)["lo"].loopback
        assert 0 < netlink._sequence < 100
        netlink._sequence = 2**32 - 2
        missing = delete_root(999_999, 0)
        assert len(netlink.send([missing] * 3)) == 3

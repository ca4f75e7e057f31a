"""Taking a root qdisc back: by any process, however often, and wherever the one before was interrupted."""

import errno
import struct
from collections.abc import Iterator

import pytest

from bench.testbed.namespace import Namespace
from hostd.enforce.htb_device import MAJOR
from hostd.kernel.htb_class import RTM_NEWTCLASS, class_message
from hostd.kernel.netlink import NLM_F_CREATE, Message, Netlink, attribute
from hostd.kernel.qdisc_tree import RTM_NEWQDISC, TC_H_ROOT, Node, QdiscTree, delete_root, read_tree
from hostd.safety.undo import NetlinkUndo, QdiscUndo

pytestmark = pytest.mark.root

ROOT = 0x10000
HTB = attribute(2, struct.pack("=IIIII", 3, 10, 0, 0, 0))


class Device:
    """A device with another program's tree: a root, two classes, and a queue below one of them."""

    def __init__(self, netlink: Netlink, ifindex: int) -> None:
        self.netlink, self.ifindex = netlink, ifindex
        self.add(Node("htb", ROOT, TC_H_ROOT, 0, HTB).message(RTM_NEWQDISC, ifindex))
        for minor in (1, 2):
            self.add(class_message(ifindex, ROOT | minor, ROOT, 1e6 * minor, 1e7, 3000, NLM_F_CREATE))
        self.add(Node("bfifo", 0x20000, ROOT | 1, 0, struct.pack("=I", 5000)).message(RTM_NEWQDISC, ifindex))
        self.theirs = self.tree()
        self.undo = QdiscUndo.of(ifindex, MAJOR, self.theirs.messages())

    def tree(self) -> QdiscTree:
        return read_tree(self.netlink, self.ifindex)

    def add(self, message: Message) -> None:
        self.netlink.ask(message)

    def delete_root(self) -> None:
        self.netlink.ask(delete_root(self.ifindex, 0))

    def set_root(self, handle: int) -> None:
        self.delete_root()
        self.add(Node("htb", handle, TC_H_ROOT, 0, HTB).message(RTM_NEWQDISC, self.ifindex))


@pytest.fixture
def device() -> Iterator[Device]:
    with Namespace("one") as one:
        one.netlink.link("add", kind="ifb", ifname="ifb9")
        index = one.index_of("ifb9")
        one.netlink.link("set", index=index, state="up")
        with one.enter(), Netlink() as netlink:
            yield Device(netlink, index)


def test_the_tree_comes_back_and_once_more_changes_nothing(device: Device) -> None:
    device.set_root(MAJOR)
    for _ in range(2):
        device.undo.perform()
        assert device.tree() == device.theirs


def test_interrupted_after_our_root_was_deleted_the_next_one_goes_on(device: Device) -> None:
    device.delete_root()
    device.undo.perform()
    assert device.tree() == device.theirs


def test_a_root_that_was_set_later_is_left_alone(device: Device) -> None:
    for handle in (0x70000, ROOT):  # even one that is called like the one before
        device.set_root(handle)
        found = device.tree()
        device.undo.perform()
        assert device.tree() == found


def test_what_the_kernel_refuses_of_the_tree_is_said(device: Device) -> None:
    impossible = Node("htb", ROOT | 3, 0x90000, 0, b"").message(RTM_NEWTCLASS, device.ifindex)
    device.set_root(MAJOR)
    with pytest.raises(OSError) as refused:
        QdiscUndo.of(device.ifindex, MAJOR, [*device.theirs.messages(), impossible]).perform()
    assert refused.value.errno == errno.EINVAL
    assert device.tree() == device.theirs


def test_a_device_that_has_gone_counts_as_taken_back(device: Device) -> None:
    QdiscUndo(9999, MAJOR, NetlinkUndo.of(*device.theirs.messages()).messages).perform()


def test_a_change_in_place_of_what_has_gone_counts_and_a_refused_one_does_not(device: Device) -> None:
    gone = class_message(device.ifindex, MAJOR | 2, MAJOR | 1, 1e6, 1e6, 3000)
    NetlinkUndo.of(gone).perform()
    foreign = class_message(device.ifindex, ROOT | 2, MAJOR | 1, 1e6, 1e6, 3000)
    with pytest.raises(OSError):
        NetlinkUndo.of(foreign).perform()

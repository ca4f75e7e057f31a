"""Faults of a host's network, as an operator or another program causes them: qdiscs, classes, address, link, MTU."""

import struct
from collections.abc import Mapping
from contextlib import suppress

from bench.chaos.plan import Fault
from bench.chaos.world import Done, Perform, World
from bench.testbed.addresses import DATA
from bench.testbed.network import DATA_IFNAME
from hostd.enforce.htb_device import FIRST_MINOR, MAJOR
from hostd.kernel.htb_class import RTM_DELTCLASS, RTM_GETTCLASS, TCMSG
from hostd.kernel.netlink import NLM_F_CREATE, Message, Netlink
from hostd.kernel.qdisc_tree import RTM_NEWQDISC, TC_H_ROOT, Node, delete_root

SMALL_MTU, MTU = 1200, 1500
OPERATORS = 0x1_0000  # the handle 1:
_PACKETS = 1000
_NLM_F_REPLACE = 0x100
_ONLINK = 4


def _ask(world: World, host: str, message: Message) -> str:
    """Why the kernel refuses it, or nothing."""
    with world.testbed.nodes[host].enter(), Netlink() as netlink:
        try:
            netlink.ask(message)
        except OSError as error:
            return f"the kernel refuses: {error.strerror}"
    return ""


def _index(world: World, host: str) -> int:
    return world.testbed.nodes[host].index_of(DATA_IFNAME)


def _delete_qdisc(world: World, fault: Fault) -> Done:
    return Done(_ask(world, fault.target, delete_root(_index(world, fault.target), 0)))


def _replace_qdisc(world: World, fault: Fault) -> Done:
    host, index = fault.target, _index(world, fault.target)
    pfifo = Node("pfifo", OPERATORS, TC_H_ROOT, 0, struct.pack("=I", _PACKETS)).message(RTM_NEWQDISC, index)
    refused = _ask(world, host, pfifo._replace(flags=NLM_F_CREATE | _NLM_F_REPLACE))

    def delete() -> None:
        _ask(world, host, delete_root(index, OPERATORS))

    return Done(refused, delete)


def _delete_class(world: World, fault: Fault) -> Done:
    """One that hostd made for a flow."""
    index = _index(world, fault.target)
    with world.testbed.nodes[fault.target].enter(), Netlink() as netlink:
        answers = netlink.dump(RTM_GETTCLASS, TCMSG.pack(0, index, 0, 0, 0))
    handles = sorted(TCMSG.unpack_from(answer)[2] for answer in answers)
    ours = [handle for handle in handles if handle >= MAJOR | FIRST_MINOR and handle >> 16 == MAJOR >> 16]
    if not ours:
        return Done("there was none")
    chosen = ours[int(fault.chance * len(ours))]
    return Done(_ask(world, fault.target, Message(RTM_DELTCLASS, 0, TCMSG.pack(0, index, chosen, 0, 0))))


def _add_route(world: World, host: str) -> None:
    """As bench/testbed/network.py does: it went with the address or the link."""
    testbed = world.testbed
    with suppress(Exception):  # it is still there
        testbed.nodes[host].netlink.route(
            "add",
            dst=str(DATA),
            gateway=str(testbed.addresses.gateway[testbed.topology.switch_of[host]]),
            oif=_index(world, host),
            flags=_ONLINK,
            prefsrc=str(testbed.addresses.data[host]),
            metrics={"cc_algo": "cubic"},
        )


def _address(world: World, fault: Fault) -> Done:
    host, netlink = fault.target, world.testbed.nodes[fault.target].netlink
    own = {"index": _index(world, host), "address": str(world.testbed.addresses.data[host]), "prefixlen": 32}
    netlink.addr("del", **own)

    def add() -> None:
        netlink.addr("add", **own)
        _add_route(world, host)

    return Done(undo=add)


def _link(world: World, fault: Fault) -> Done:
    host, netlink = fault.target, world.testbed.nodes[fault.target].netlink
    index = _index(world, host)
    netlink.link("set", index=index, state="down")

    def up() -> None:
        netlink.link("set", index=index, state="up")
        _add_route(world, host)

    return Done(undo=up)


def _mtu(world: World, fault: Fault) -> Done:
    """At both ends of the cable: where they differ, single packets vanish without a word, and TCP waits for long."""
    host, testbed = fault.target, world.testbed
    switch = testbed.nodes[testbed.topology.switch_of[host]]
    ends = [(testbed.nodes[host].netlink, _index(world, host)), (switch.netlink, switch.index_of(host))]

    def change(mtu: int) -> None:
        for netlink, index in ends:
            netlink.link("set", index=index, mtu=mtu)

    change(SMALL_MTU)
    return Done(undo=lambda: change(MTU))


FAULTS: Mapping[str, Perform] = {
    "delete-qdisc": _delete_qdisc,
    "replace-qdisc": _replace_qdisc,
    "delete-class": _delete_class,
    "address": _address,
    "link": _link,
    "mtu": _mtu,
}

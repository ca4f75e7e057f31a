"""htb: its own handle, its manners towards what other programs set, borrowing, and devices that come and go."""

import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from bench.testbed.namespace import Namespace, connect
from hostd.enforce.errors import CannotEnforce
from hostd.enforce.htb import SPEED_EVERY, HtbBackend
from hostd.enforce.htb_device import FIRST_MINOR, MAJOR, HtbDevice
from hostd.kernel.htb_class import RTM_DELTCLASS, TCMSG
from hostd.kernel.netlink import Message, Netlink, attribute, attributes
from hostd.kernel.qdisc_tree import (
    _TCA_CHAIN,
    _TCA_STAB,
    _U32_DIVISOR,
    RTM_NEWQDISC,
    RTM_NEWTFILTER,
    TC_H_ROOT,
    Node,
    delete_root,
    read_tree,
)
from hostd.kernel.sockets import DataSocket, own_namespace
from hostd.safety.undo_log import UndoLog, _read
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId, Role
from tests.hostd.conftest import FLOW, PORT, Wire, wait_until

pytestmark = pytest.mark.root

OTHER = FlowId("other", "h0", "h1", Role.RING)
LINK_BPS = 200e6
IPV4_AT_7 = 7 << 16 | 0x0008  # a filter's priority, and its protocol as the network writes it
U32_HASH = 2
ROOT = Path(__file__).parents[3]
SECOND = IPv4Interface("10.96.0.1/24"), IPv4Interface("10.96.0.2/24")


@pytest.fixture
def undo_log(tmp_path: Path) -> UndoLog:
    return UndoLog(tmp_path / "lease.json")


def backend_on(undo_log: UndoLog, takeover: bool = False) -> HtbBackend:
    return HtbBackend(undo_log, lambda device: LINK_BPS, takeover=takeover)


def foreign_tree(namespace: Namespace) -> None:
    """A class tree with a queue and filters, as an operator might have."""
    netlink, index = namespace.netlink, namespace.index_of("eth0")
    netlink.tc("add", "htb", index, 0x10000, default=0x20)
    netlink.tc("add-class", "htb", index, 0x10001, parent=0x10000, rate="500mbit", ceil="600mbit")
    netlink.tc("add-class", "htb", index, 0x10010, parent=0x10001, rate="100mbit", ceil="500mbit", prio=1)
    netlink.tc("add-class", "htb", index, 0x10020, parent=0x10001, rate="50mbit")
    match = {"prio": 5, "protocol": 0x0800, "target": 0x10010, "keys": ["0x0a610002/0xffffffff+16"]}
    netlink.tc("add-filter", "u32", index, 0, parent=0x10000, **match)
    netlink.tc("add-filter", "u32", index, 0, parent=0x10001, **match | {"prio": 6, "target": 0x10020})
    with namespace.enter(), Netlink() as raw:  # pyroute2 puts it at the root
        raw.ask(Node("bfifo", 0x200000, 0x10010, 0, struct.pack("=I", 100_000)).message(RTM_NEWQDISC, index))


def delete_the_root(index: int) -> None:
    """As `tc qdisc del root` does: whatever its handle."""
    with Netlink() as raw:
        raw.ask(delete_root(index, 0))


def test_a_foreign_root_qdisc_is_refused_and_left_alone(wire: Wire, undo_log: UndoLog) -> None:
    wire.sink()
    sockets = wire.send().sockets()
    foreign_tree(wire.here)
    before = wire.state(sockets)
    with wire.here.enter():
        backend = backend_on(undo_log)
        with pytest.raises(CannotEnforce, match=r"eth0: the qdisc htb 1: was not set by hostd; takeover = true"):
            backend.set_up("eth0")
        [error] = backend.attach(FLOW, sockets)
        assert error.flow == FLOW and "takeover = true" in error.reason
        assert backend.apply([Limit(FLOW, 1e6, 1e6)]) == []
        backend.close()
    assert wire.state(sockets) == before


@pytest.mark.parametrize("kind", ["tbf", "htb", "pfifo"])
def test_a_qdisc_taken_over_comes_back_as_it_was(wire: Wire, undo_log: UndoLog, kind: str) -> None:
    index = wire.here.index_of("eth0")
    match kind:
        case "tbf":
            wire.here.netlink.tc("add", "tbf", index, 0x30000, rate="300mbit", burst=65536, latency="20ms")
        case "pfifo":
            wire.here.netlink.tc("add", "pfifo", index, 0x30000, limit=77)
        case "htb":
            foreign_tree(wire.here)
    before = wire.state()
    with wire.here.enter():
        backend = backend_on(undo_log, takeover=True)
        backend.set_up("eth0")
        with Netlink() as netlink:
            root = read_tree(netlink, index).root
        assert root is not None and root.handle == MAJOR
        assert backend.close() == []
    assert wire.state() == before


def add_hash_table(raw: Netlink, index: int) -> None:
    options = attribute(_U32_DIVISOR, struct.pack("=I", 16))
    raw.ask(Node("u32", 0x0010_0000, 0x10000, IPV4_AT_7, options).message(RTM_NEWTFILTER, index))


def add_chain(raw: Netlink, index: int) -> None:
    """A filter that is there, once more in another chain."""
    found = read_tree(raw, index).filters[0]
    options = b"".join(attribute(*one) for one in attributes(found.options).items() if one[0] != U32_HASH)
    request = replace(found, handle=0, info=IPV4_AT_7, options=options).message(RTM_NEWTFILTER, index)
    raw.ask(request._replace(body=request.body + attribute(_TCA_CHAIN, struct.pack("=I", 7))))


def add_size_table(raw: Netlink, index: int) -> None:
    spec = struct.pack("=BBhiIIII", 0, 0, 0, 24, 1, 0, 1500, 0)
    delete_the_root(index)  # only a root has one
    request = Node("bfifo", 0x300000, TC_H_ROOT, 0, struct.pack("=I", 100_000)).message(RTM_NEWQDISC, index)
    raw.ask(request._replace(body=request.body + attribute(_TCA_STAB, attribute(1, spec))))


@pytest.mark.parametrize(
    ("add", "lost"),
    [
        (add_hash_table, "the hash tables of the filters of 1:"),
        (add_chain, "a filter of 1: in a chain of its own"),
        (add_size_table, "the size table of bfifo 30:"),
    ],
)
def test_what_could_not_be_put_back_is_not_taken_over(
    wire: Wire, undo_log: UndoLog, add: Callable[[Netlink, int], None], lost: str
) -> None:
    foreign_tree(wire.here)
    with wire.here.enter():
        with Netlink() as raw:
            add(raw, wire.here.index_of("eth0"))
        before = wire.state()
        backend = backend_on(undo_log, takeover=True)
        with pytest.raises(CannotEnforce, match=f"not taken over, because {lost} could not be put back"):
            backend.set_up("eth0")
        assert backend.close() == []
    assert wire.state() == before


def test_a_root_that_another_program_replaced_meanwhile_is_theirs(wire: Wire, undo_log: UndoLog) -> None:
    index = wire.here.index_of("eth0")
    with wire.here.enter():
        backend = backend_on(undo_log)
        backend.set_up("eth0")
        wire.here.netlink.tc("replace", "pfifo", index, 0x30000, limit=5)
        backend.close()
        with Netlink() as netlink:
            assert [node.kind for node in read_tree(netlink, index).qdiscs] == ["pfifo"]


def test_the_guaranteed_flow_wins_and_the_other_borrows_what_it_leaves(wire: Wire, undo_log: UndoLog) -> None:
    wire.sink()
    winner, loser = wire.send(), wire.send()
    first, second = winner.sockets(), loser.sockets()
    with wire.here.enter():
        backend = backend_on(undo_log)
        backend.apply([Limit(FLOW, 0.8 * LINK_BPS, LINK_BPS), Limit(OTHER, 1e6, LINK_BPS)])
        backend.attach(FLOW, first)
        backend.attach(OTHER, second)
        wait_until(lambda: winner.rate_bps(first, 0.5) > 3 * loser.rate_bps(second, 0.5))
        winner.end()
        # Nothing else was told: what the winner leaves is duplicated_socket, with no debt to pay off first.
        loser.comes_to(second, 0.6 * LINK_BPS)
        backend.close()


def test_a_raised_flow_is_served_before_waiting_flows_at_once(wire: Wire, undo_log: UndoLog) -> None:
    """Both have much to send and take turns of 50 ms. In debt for what it sent while it waited, a class borrows."""
    wire.sink()
    jobs = {FLOW: wire.send(), OTHER: wire.send()}
    sockets = {flow: job.sockets() for flow, job in jobs.items()}

    def turns_are_kept() -> bool:
        sent = {flow: {True: 0.0, False: 0.0} for flow in jobs}  # by whether it was its turn
        for turn in range(16):
            holder, waiter = (FLOW, OTHER) if turn % 2 else (OTHER, FLOW)
            backend.apply([Limit(holder, LINK_BPS, LINK_BPS), Limit(waiter, 1e6, LINK_BPS)])
            before = {flow: job.meter.read(sockets[flow]) for flow, job in jobs.items()}
            time.sleep(0.05)
            for flow, job in jobs.items():
                sent[flow][flow == holder] += job.meter.read(sockets[flow]) - before[flow]
        return all(own[True] > 4 * own[False] for own in sent.values())

    with wire.here.enter():
        backend = backend_on(undo_log)
        for flow, own in sockets.items():
            backend.attach(flow, own)
        assert any(turns_are_kept() for _ in range(6)), "a busy machine spoils some of them, not all"
        backend.close()


def test_other_traffic_is_not_limited(wire: Wire, undo_log: UndoLog) -> None:
    wire.sink()
    ours, theirs = wire.send(), wire.send()
    first, second = ours.sockets(), theirs.sockets()
    with wire.here.enter():
        backend = backend_on(undo_log)
        backend.attach(FLOW, first)
        backend.apply([Limit(FLOW, 10e6, 10e6)])
        theirs.comes_to(second, 2 * LINK_BPS)
        backend.close()


def test_a_flow_over_two_devices_is_divided_and_a_device_may_come_later(wire: Wire, undo_log: UndoLog) -> None:
    wire.sink()
    first = wire.send().sockets()
    with wire.here.enter():
        backend = backend_on(undo_log)
        backend.attach(FLOW, first)
    connect(wire.here, "eth1", wire.there, "eth1", SECOND)
    before = wire.state()
    wire.sink(str(SECOND[1].ip))
    job = wire.send(1, str(SECOND[1].ip))
    second = job.sockets()
    with wire.here.enter():
        assert backend.attach(FLOW, [*first, *second]) == []
        assert backend.apply([Limit(FLOW, 40e6, 60e6)]) == []
        with Netlink() as netlink:
            for name in ("eth0", "eth1"):
                root = read_tree(netlink, wire.here.index_of(name)).root
                assert root is not None and root.handle == MAJOR
        assert backend.read_back()[FLOW] == Limit(FLOW, 40e6, 60e6)
        job.comes_to(second, 15e6, 33e6)
        backend.close()
    assert wire.state()[1][-1] == before[1][-1]


def test_a_device_that_vanishes_and_returns_is_set_up_again(wire: Wire, undo_log: UndoLog) -> None:
    connect(wire.here, "eth1", wire.there, "eth1", SECOND)
    wire.sink(str(SECOND[1].ip), PORT)
    sockets = wire.send(1, str(SECOND[1].ip)).sockets()
    with wire.here.enter():
        backend = backend_on(undo_log)
        backend.attach(FLOW, sockets)
        wire.here.netlink.link("del", index=wire.here.index_of("eth1"))
        [error] = backend.apply([Limit(FLOW, 50e6, 50e6)])
        assert "eth1" in error.reason
        assert backend.refresh() != []  # no device has its address
        assert backend.apply([Limit(FLOW, 30e6, 30e6)]) == []
        connect(wire.here, "eth1", wire.there, "eth1", SECOND)
        assert backend.refresh() == []
        assert backend.read_back()[FLOW] == Limit(FLOW, 30e6, 30e6)
        assert backend.close() == []


def test_a_class_that_another_program_deleted_is_made_anew(wire: Wire, undo_log: UndoLog) -> None:
    wire.sink()
    sockets = wire.send().sockets()
    index = wire.here.index_of("eth0")
    with wire.here.enter():
        backend = backend_on(undo_log)
        backend.attach(FLOW, sockets)
        with Netlink() as netlink:
            netlink.ask(Message(RTM_DELTCLASS, 0, TCMSG.pack(0, index, MAJOR | FIRST_MINOR, 0, 0)))
        assert len(backend.apply([Limit(FLOW, 50e6, 50e6)])) == 1
        assert FLOW not in backend.read_back()
        assert backend.apply([Limit(FLOW, 60e6, 60e6)]) == []
        assert backend.read_back()[FLOW].ceiling_bps == 60e6
        backend.close()


@pytest.mark.parametrize("takeover", [False, True])
def test_a_root_that_another_program_deleted_is_set_up_again(wire: Wire, undo_log: UndoLog, takeover: bool) -> None:
    """And the qdisc that was there before is back in the end."""
    wire.sink()
    sockets = wire.send().sockets()
    if takeover:
        wire.here.netlink.tc("replace", "pfifo", wire.here.index_of("eth0"), 0x30000, limit=5)
    before = wire.state(sockets)
    with wire.here.enter():
        backend = backend_on(undo_log, takeover)
        backend.attach(FLOW, sockets)
        delete_the_root(wire.here.index_of("eth0"))
        assert any("eth0: another program deleted" in one.reason for one in backend.apply([Limit(FLOW, 50e6, 50e6)]))
        assert backend.read_back() == {}
        assert backend.refresh() == []
        assert backend.read_back()[FLOW].ceiling_bps == 50e6
        assert backend.close() == []
    assert wire.state(sockets) == before


@pytest.mark.parametrize("takeover", [False, True])
def test_a_root_that_was_replaced_is_refused_or_taken_over(wire: Wire, undo_log: UndoLog, takeover: bool) -> None:
    wire.sink()
    sockets = wire.send().sockets()
    with wire.here.enter():
        backend = backend_on(undo_log, takeover)
        backend.attach(FLOW, sockets)
        wire.here.netlink.tc("replace", "pfifo", wire.here.index_of("eth0"), 0x30000, limit=5)
        backend.apply([Limit(FLOW, 50e6, 50e6)])
        assert [("the qdisc pfifo" in one.reason) for one in backend.refresh()] == [True] * (not takeover)
        assert (FLOW in backend.read_back()) is takeover
        assert backend.close() == []
        with Netlink() as netlink:
            assert [node.kind for node in read_tree(netlink, wire.here.index_of("eth0")).qdiscs] == ["pfifo"]


def test_classes_of_other_programs_are_not_read(wire: Wire, undo_log: UndoLog) -> None:
    """A device with several queues has one of the kernel's classes for each when our root was deleted."""
    wire.here.netlink.link("add", kind="ifb", ifname="ifb9", num_tx_queues=4)
    index = wire.here.index_of("ifb9")
    wire.here.netlink.link("set", index=index, state="up")
    with wire.here.enter():
        backend = backend_on(undo_log)
        tree = backend.set_up("ifb9")
        assert tree.rates().keys() == {1}
        delete_the_root(index)
        with Netlink() as netlink:
            assert read_tree(netlink, index).root.kind == "mq"
        assert tree.rates() == {} and not tree.stands()
        assert backend.close() == []


def test_nothing_stays_on_record_of_a_device_that_vanished(wire: Wire, tmp_path: Path) -> None:
    connect(wire.here, "eth1", wire.there, "eth1", SECOND)
    wire.sink(str(SECOND[1].ip), PORT)
    sockets = wire.send(1, str(SECOND[1].ip)).sockets()
    with wire.here.enter():
        undo_log = UndoLog(tmp_path / "lease.json")
        backend = backend_on(undo_log)
        backend.attach(FLOW, sockets)
        assert _read(undo_log.path).keys() >= {"qdisc eth1", "gso eth1", "routes eth1", f"class eth1 {FIRST_MINOR:x}"}
        wire.here.netlink.link("del", index=wire.here.index_of("eth1"))
        backend.refresh()
        assert not any("eth1" in key for key in _read(undo_log.path))
        backend.close()


READ_ONLY_SYSCTLS = """
import ctypes, pathlib, sys
from hostd.enforce.htb import HtbBackend
from hostd.enforce.pacing import TSO_RTT_LOG
from hostd.safety.undo_log import UndoLog
from hostd.safety.undo import SysctlUndo
libc = ctypes.CDLL(None)
NEWNS, RDONLY, REMOUNT, BIND, REC, PRIVATE = 0x20000, 0x1, 0x20, 0x1000, 0x4000, 0x40000
assert libc.unshare(NEWNS) == 0 and libc.mount(None, b"/", None, REC | PRIVATE, None) == 0
assert libc.mount(b"/proc/sys", b"/proc/sys", None, BIND, None) == 0
assert libc.mount(None, b"/proc/sys", None, REMOUNT | BIND | RDONLY, None) == 0
backend = HtbBackend(UndoLog(pathlib.Path(sys.argv[1])), lambda device: 2e8)
print("bundles of", backend.set_up("eth0").bundle_bytes)
print("errors", backend.close())
SysctlUndo(str(TSO_RTT_LOG), TSO_RTT_LOG.read_text()).perform()
print("as it was")
"""


def test_read_only_sysctls_are_no_hindrance(wire: Wire, tmp_path: Path) -> None:
    """As systemd's ProtectKernelTunables makes them: routes cannot be flushed, neither there nor back."""
    before = wire.state()
    command = [sys.executable, "-c", READ_ONLY_SYSCTLS, str(tmp_path / "lease.json")]
    held = wire.here.popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert held.communicate(timeout=30)[0].splitlines() == ["bundles of 13600", "errors []", "as it was"]
    assert wire.state() == before


def test_a_set_up_that_fails_half_way_changes_nothing(
    wire: Wire, undo_log: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_tree(wire.here)
    before = wire.state()

    def refuse(device: HtbDevice) -> None:
        raise OSError("no")

    monkeypatch.setattr(HtbDevice, "_limit_bundles", refuse)
    with wire.here.enter():
        backend = backend_on(undo_log, takeover=True)
        with pytest.raises(OSError, match="no"):
            backend.set_up("eth0")
        assert wire.state() == before
        backend.close()


def test_a_job_with_a_network_of_its_own_is_out_of_reach(wire: Wire, undo_log: UndoLog) -> None:
    wire.sink()
    sockets = wire.send().sockets()
    backend = backend_on(undo_log)  # not in the job's namespace
    [error] = backend.attach(FLOW, sockets)
    assert "network of its own" in error.reason
    backend.close()


def test_a_device_that_is_renamed_is_the_same(wire: Wire, undo_log: UndoLog) -> None:
    before, index = wire.state()[1], wire.here.index_of("eth0")
    wire.sink()
    sockets = wire.send().sockets()
    with wire.here.enter():
        backend = backend_on(undo_log)
        assert backend.attach(FLOW, sockets) == [] == backend.apply([Limit(FLOW, 30e6, 40e6)])
        for name in ("net0", "eth0", "net0"):
            wire.here.netlink.link("set", index=index, ifname=name)
            assert backend.watch_others() == [] == backend.refresh()
            assert backend.apply([Limit(FLOW, 20e6, 30e6)]) == []
            assert backend.read_back()[FLOW] == Limit(FLOW, 20e6, 30e6)
        assert backend.close() == []
        wire.here.netlink.link("set", index=index, ifname="eth0")
    assert wire.state()[1] == before


def test_the_loopback_carries_nothing_off_the_host(wire: Wire, undo_log: UndoLog) -> None:
    """Its own address may be there, too, where routes lead to it."""
    wire.here.netlink.addr("add", index=wire.here.index_of("lo"), address="10.99.0.1", prefixlen=32)
    with wire.here.enter():
        backend = backend_on(undo_log)
        own = DataSocket(os.getpid(), 0, 1, "10.99.0.1", str(SECOND[1].ip), 0, own_namespace())
        assert any("no device has the address" in error.reason for error in backend.attach(FLOW, [own]))
        assert backend._links == {} and backend.close() == []


def test_a_class_in_which_a_socket_is_left_is_the_last_to_be_given_away(
    wire: Wire, undo_log: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is held, say; another user's flow must not share its class with it."""
    wire.sink()
    held, other = wire.send().sockets(), wire.send().sockets()
    with wire.here.enter():
        backend = backend_on(undo_log)
        backend.attach(FLOW, held)
        with monkeypatch.context() as patch:
            patch.setattr(undo_log, "take_back", lambda keys: {})  # it is owed
            backend.detach(FLOW)
        backend.attach(OTHER, other)
        assert backend._flows[OTHER].minor != FIRST_MINOR
        backend.detach(OTHER)
        backend.attach(OTHER, other)
        assert backend._flows[OTHER].minor == FIRST_MINOR + 1, "as always"
        backend.close()


def test_a_device_whose_speed_changes_is_as_fast_as_it_says(wire: Wire, undo_log: UndoLog) -> None:
    """A bond whose second member is down when the first flow comes, and back later."""
    speed_bps = LINK_BPS / 2
    wire.sink()
    sockets = wire.send().sockets()
    with wire.here.enter():
        backend = HtbBackend(undo_log, lambda device: speed_bps)
        backend.attach(FLOW, sockets)
        assert backend.read_back()[FLOW].ceiling_bps == pytest.approx(LINK_BPS / 2)
        speed_bps = LINK_BPS
        for _ in range(SPEED_EVERY):
            assert backend.refresh() == []
        assert backend.read_back()[FLOW].ceiling_bps == pytest.approx(LINK_BPS)
        backend.close()

"""Our HTB tree on one device.

    ace:          root. Packets without a class pass by all classes, first and unlimited, as if there were no tree
    └─ ace:1      the link: its rate is what flows may borrow from each other
       ├─ ace:2   others: packets without a class while they want much of the link beside flows (own_link.py)
       ├─ ace:3   a flow: its guarantee as rate, its ceiling as ceil, and a bounded queue
       └─ ...

A flow keeps its class for life and only the class changes: a live socket moved to another class would overtake its
own packets. Queues: TCP itself keeps no more than two bundles or a millisecond per socket below it (TCP small
queues), so a class's queue stays short at any rate; the bound is for traffic that ignores this, and is explicit
because the default, the device's txqueuelen, is 0 or 1000 bundles depending on the device. A tight bound (one
millisecond of the link) was tried: the drops it causes make TCP shrink its window, and cost 10 % of the slot after
a rise.

Bundles. A class sends whole bundles of up to 64 KB: at 50 Mbit/s one takes 10 ms, coarse for a slot of 60, and at the
floor a debt of half a second. So a device's bundles are limited to what its link carries in `bundle_ns`. At 1.6 Gbit/s
that is 64 KB: fast devices, where small bundles would cost CPU, are left alone. A device of at most FEW_FLOWS, none of
which has a small part of the link for long, may send longer ones, which at 1 Gbit/s are the kernel's own: jobs that
wait for many short exchanges are then as fast as without hostd (`paceline bench real-jobs --case alone`).

Debt. Tokens are time, and a class that was raised must still wait until it has paid for its last bundle: at its old
ceiling before it may send at all, at its old guarantee before it is served first. So neither is lower than `least_bps`,
a bundle of `bundle_ns` in _DEBT_MS: at most a fiftieth of the link where bundles are limited. A policy's limits have a
floor already (FLOOR_BPS), but what a class can be held to without such a debt depends on the device's bundles, which no
policy knows.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping

from hostd.enforce.class_filter import MOST_FILTERED, filter_message
from hostd.enforce.errors import CannotEnforce, ErrorKind
from hostd.kernel.devices import IFINFOMSG, IFLA_GSO_IPV4_MAX_SIZE, IFLA_GSO_MAX_SIZE, Device, sent_bytes
from hostd.kernel.htb_class import RTM_GETTCLASS, TCA_KIND, TCMSG, ClassUse, class_message, rates_of, use_of
from hostd.kernel.netlink import NLM_F_CREATE, NLM_F_EXCL, Message, Netlink, attribute, value_of
from hostd.kernel.qdisc_tree import RTM_NEWQDISC, TC_H_ROOT, Node, delete_root, read_tree
from hostd.kernel.sockets import DataSocket
from hostd.safety.undo import NetlinkUndo, QdiscUndo, RouteFlush
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.model.units import BITS_PER_BYTE, UNLIMITED, transfer_bytes

MAJOR = 0x0ACE_0000  # "ace:"; the kernel gives out 8000: and above by itself
LINK_MINOR, OTHERS_MINOR = 1, 2
FIRST_MINOR, LAST_MINOR = 3, 0xFFFF

# A link whose speed is not known: more than any, and still far from overflowing the kernel's arithmetic.
UNCAPPED_BPS = 1e13

# Sockets of one flow on one device for which the queue has room; NCCL opens up to 64 per peer. Others may have more.
_SOCKETS, _OTHERS_SOCKETS = 64, 1024

# For what lies in a class's queue when its limit is lifted: milliseconds at any rate a NIC has.
_DRAIN_MS = 10

# HTB serves guarantees first, and what is left in this order: a job's flow that waits for its turn borrows what the one
# that sends leaves before others do, because both stand for the same place.
_AFTER_FLOWS = 1

_TWO_SEGMENTS_BYTES = 3000  # TCP makes none smaller

# On a device with so few flows bundles may take so many times `bundle_ns`.
FEW_FLOWS, _LONGER = 4, 1.7

# The most a class may have to wait for after a raise: a quarter of a slot of 60 ms.
_DEBT_MS = 16

_NLM_F_REPLACE = 0x100
_RTM_SETLINK = 19


class HtbDevice:
    """Sets the tree up when made; raises CannotEnforce or OSError with nothing changed."""

    def __init__(
        self,
        netlink: Netlink,
        undo_log: UndoLog,
        device: Device,
        link_bps: float | None,
        bundle_ns: int | None,
        takeover: bool,
    ) -> None:
        self.device = device
        self.link_bps = link_bps or UNCAPPED_BPS
        longest = device.gso_max_bytes
        self._short_bytes = bundle_bytes(self.link_bps, bundle_ns, longest)
        self.bundle_bytes = bundle_bytes(self.link_bps, bundle_ns and round(_LONGER * bundle_ns), longest)
        self.least_bps = self._short_bytes * BITS_PER_BYTE * 1000 / _DEBT_MS  # of a class, see above
        self._netlink = netlink
        self._undo_log = undo_log
        self._classes: set[int] = set()
        self._filtered: dict[DataSocket, int] = {}
        self._others_apart = False
        ifindex = device.ifindex
        found = read_tree(netlink, ifindex)
        if found.root is not None and found.root.handle == MAJOR:
            # hostd's, and in no undo log: of a predecessor whose runtime directory is lost.
            netlink.ask(delete_root(ifindex, MAJOR))
            found = read_tree(netlink, ifindex)
        if not found.is_default and not takeover:
            chosen = next(node for node in found.qdiscs if node.handle)
            raise CannotEnforce(
                f"{device.name}: the qdisc {chosen.kind} {chosen.handle >> 16:x}: was not set by hostd; "
                'takeover = true replaces it while hostd runs, backend = "pacing" leaves it alone',
                ErrorKind.FOREIGN_QDISC,
            )
        if found.unrepeatable:
            raise CannotEnforce(
                f"{device.name}: not taken over, because {found.unrepeatable} could not be put back; "
                'backend = "pacing" leaves it alone',
                ErrorKind.FOREIGN_QDISC,
            )
        undo = QdiscUndo.of(ifindex, MAJOR, found.messages(), _DRAIN_MS)
        undo_log.record({f"qdisc {device.name}": undo})
        flags = NLM_F_CREATE | (NLM_F_EXCL if found.is_default else _NLM_F_REPLACE)
        try:
            netlink.ask(_root(ifindex)._replace(flags=flags))
            netlink.ask(self._lifted(LINK_MINOR, MAJOR)._replace(flags=NLM_F_CREATE))
            self._limit_bundles()
        except OSError:
            undo_log.take_back([f"qdisc {device.name}", f"gso {device.name}", f"routes {device.name}"])
            raise

    def expect_flows(self, flows: int) -> None:
        """Of the whole host, which may all leave here. More than few, once, and bundles are short for good; raises
        OSError. Classes hear of it when they are set again, within a second (refresh)."""
        if flows > FEW_FLOWS and self.bundle_bytes > self._short_bytes:
            self.bundle_bytes = self._short_bytes
            self._limit_bundles()

    def set_class(self, minor: int, rate_bps: float, ceiling_bps: float) -> list[Message]:
        """The messages that change the class in place, or make it; how to lift it is on record by then."""
        ifindex, link = self.device.ifindex, MAJOR | LINK_MINOR
        ceiling_bps = min(max(ceiling_bps, self.least_bps), self.link_bps)
        rate_bps = min(max(rate_bps, self.least_bps), ceiling_bps)
        priority = _AFTER_FLOWS if minor == OTHERS_MINOR else 0
        change = class_message(
            ifindex, MAJOR | minor, link, rate_bps, ceiling_bps, self.bundle_bytes, priority=priority
        )
        if minor in self._classes:
            return [change]
        self._undo_log.record({self._class_key(minor): NetlinkUndo.of(self._lifted(minor, link))})
        self._classes.add(minor)
        sockets = _OTHERS_SOCKETS if minor == OTHERS_MINOR else _SOCKETS
        queue = Node("bfifo", 0, MAJOR | minor, 0, struct.pack("=I", 2 * self.bundle_bytes * sockets))
        return [change._replace(flags=NLM_F_CREATE), queue.message(RTM_NEWQDISC, ifindex)]

    def set_link(self, rate_bps: float) -> None:
        """What classes may send together; raises OSError. Lifted with the last of them."""
        link = MAJOR | LINK_MINOR
        self._undo_log.record({self._class_key(LINK_MINOR): NetlinkUndo.of(self._lifted(LINK_MINOR, MAJOR))})
        self._netlink.ask(class_message(self.device.ifindex, link, MAJOR, rate_bps, rate_bps, self.bundle_bytes))

    def make_others(self, messages: Iterable[Message]) -> None:
        """Makes their class, and puts their packets there; raises OSError."""
        for message in messages:
            self._netlink.ask(message)
        self.set_others_apart(True)

    def filter(self, minors: Mapping[DataSocket, int]) -> None:
        """Packets of these sockets are in these classes, whatever priority the sockets have; raises OSError."""
        wanted = dict(list(minors.items())[:MOST_FILTERED])
        if wanted != self._filtered:
            self._filtered = wanted  # also if it fails: what the kernel lacks it lacks in a second, too
            self._netlink.ask(self._filter_message())

    def set_others_apart(self, apart: bool) -> None:
        """Whether packets of others are in their class, or in none; raises OSError."""
        if apart != self._others_apart:
            self._others_apart = apart
            try:
                self._netlink.ask(self._filter_message())
            except OSError:
                self._others_apart = not apart
                raise

    def _filter_message(self) -> Message:
        handles = {one: MAJOR | minor for one, minor in self._filtered.items()}
        others = MAJOR | OTHERS_MINOR if self._others_apart else 0
        return filter_message(self.device.ifindex, MAJOR, handles, others)

    def lost_class(self, minor: int) -> None:
        """Another program deleted it: the next set_class makes it anew."""
        self._classes.discard(minor)
        self._undo_log.forget([self._class_key(minor)])

    def stands(self) -> bool:
        """Whether the device's root is still hostd's; another program may delete or replace it."""
        root = read_tree(self._netlink, self.device.ifindex).root
        return root is not None and root.handle == MAJOR

    def forget_tree(self) -> None:
        """It has gone: nothing of it is to be taken back. What the device itself was told stays on record, and so does
        the tree that was there before, unless another program has set one since."""
        root = read_tree(self._netlink, self.device.ifindex).root
        before = [f"qdisc {self.device.name}"] if root is not None and root.handle else []
        self._undo_log.forget([*before, *map(self._class_key, (LINK_MINOR, *self._classes))])

    def forget_device(self) -> None:
        """It has gone, and everything on it."""
        own = [f"{kind} {self.device.name}" for kind in ("qdisc", "gso", "routes")]
        self._undo_log.forget([*own, *map(self._class_key, (LINK_MINOR, *self._classes))])

    def rates(self) -> Mapping[int, tuple[float, float]]:
        """(guarantee, ceiling) by minor, from the kernel; UNLIMITED where no speed is known and none was set."""
        return {
            handle & 0xFFFF: (rate, UNLIMITED if ceil >= UNCAPPED_BPS else ceil)
            for handle, rate, ceil in map(rates_of, self._class_dump())
        }

    def sent_bytes(self) -> int:
        """By the device, of flows and of others; raises OSError."""
        return sent_bytes(self._netlink, self.device.ifindex)

    def use(self) -> Mapping[int, ClassUse]:
        """What each class has sent, by minor; raises OSError."""
        return {one.handle & 0xFFFF: one for one in map(use_of, self._class_dump())}

    def _class_dump(self) -> Iterator[bytes]:
        return filter(_is_ours, self._netlink.dump(RTM_GETTCLASS, TCMSG.pack(0, self.device.ifindex, 0, 0, 0)))

    def _class_key(self, minor: int) -> str:
        return f"class {self.device.name} {minor:x}"

    def _lifted(self, minor: int, parent: int) -> Message:
        """The class with the whole link."""
        whole_bps = self.link_bps
        return class_message(self.device.ifindex, MAJOR | minor, parent, whole_bps, whole_bps, self.bundle_bytes)

    def _limit_bundles(self) -> None:
        device = self.device
        if self.bundle_bytes < device.gso_max_bytes:
            original = _gso(device.ifindex, device.gso_max_bytes, device.gso_ipv4_max_bytes)
            # The newest is taken back first: size, then routes.
            self._undo_log.record({f"routes {device.name}": RouteFlush()})
            self._undo_log.record({f"gso {device.name}": NetlinkUndo.of(original)})
            self._netlink.ask(_gso(device.ifindex, self.bundle_bytes, self.bundle_bytes))
            RouteFlush().perform()


def bundle_bytes(link_bps: float, bundle_ns: int | None, largest_bytes: int) -> int:
    """The largest bundle on a device: what its link carries in `bundle_ns`, at least two segments."""
    if bundle_ns is None or link_bps >= UNCAPPED_BPS:
        return largest_bytes
    return min(max(round(transfer_bytes(link_bps, bundle_ns)), _TWO_SEGMENTS_BYTES), largest_bytes)


def _is_ours(answer: bytes) -> bool:
    """Other qdiscs have classes, too, which look different: mq's have no options at all."""
    _, _, handle, _, _ = TCMSG.unpack_from(answer)
    return handle & 0xFFFF_0000 == MAJOR and value_of(answer[TCMSG.size :], TCA_KIND) == b"htb\0"


def _root(ifindex: int) -> Message:
    init = struct.pack("=IIIII", 3, 10, 0, 0, 0)  # version, rate2quantum, default class: none, debug, counter
    return Node("htb", MAJOR, TC_H_ROOT, 0, attribute(2, init)).message(RTM_NEWQDISC, ifindex)


def _gso(ifindex: int, max_bytes: int, ipv4_max_bytes: int) -> Message:
    body = IFINFOMSG.pack(0, 0, ifindex, 0, 0) + attribute(IFLA_GSO_MAX_SIZE, struct.pack("=I", max_bytes))
    return Message(_RTM_SETLINK, 0, body + attribute(IFLA_GSO_IPV4_MAX_SIZE, struct.pack("=I", ipv4_max_bytes)))

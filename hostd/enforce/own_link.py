"""Who is guaranteed what of a device's link, where the traffic of others leaves through it as well.

Packets of others are in no class, and HTB serves those before all: on a link that is full here, and not further on,
they would leave flows nothing. So while both want much of it,

    others     have a class, which may borrow like any
    the link   is divided by connections among those that send (flowcore's own_link.py), HERE of it: the queue must be
               here, and not in the next switch, where whoever came first would keep its place

and that ends when one of them has wanted little for _REST_NS. Otherwise others pass as if there were no tree. So they
do for their first _JUDGED_NS, and for good on a device that sends more then than its link is said to carry: a wrong
speed in a configuration must not slow them down.

What is told to the kernel is then less than what was asked for, and `rates` knows that.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from hostd.enforce.base import Others
from hostd.enforce.htb_device import LINK_MINOR, OTHERS_MINOR, HtbDevice
from hostd.kernel.netlink import Message
from paceline.flowcore.allocation.own_link import Want, divide, others_part
from paceline.flowcore.detect.foreign import MUCH, ForeignTraffic
from paceline.flowcore.detect.others import OthersLoad
from paceline.flowcore.model.units import BITS_PER_BYTE, NS_PER_S, UNLIMITED, transfer_bytes

HERE = 0.98  # of the link
FASTER = 1.1  # than the link is said to be; what overflows the next queue is sent as well
_JUDGED_NS = 1_000_000_000
_REST_NS = 500_000_000
_COUNT_NS = 500_000_000  # connections are counted as often
_SELDOM_NS = 170_000_000  # between looks while others want little, where slots are shorter
_CLOSE = 0.01  # of the link: guarantees that differ by less are the same


class OthersSockets(NamedTuple):
    """TCP connections that leave through the link and are in no class."""

    sending: int = 0
    of_jobs: Mapping[int, float] = {}  # bytes on the wire so far, by cookie


Look = Callable[[], OthersSockets]


class Asked(NamedTuple):
    """For a flow's class; a guarantee of UNLIMITED is none."""

    rate_bps: float
    ceiling_bps: float
    weight: float = 1.0


class OwnLink:
    def __init__(self, tree: HtbDevice) -> None:
        self.tree = tree
        self._load = OthersLoad()
        self.connections = 0  # of others, while the link is divided
        self.foreign = False  # one of them is of no job
        self._foreign = ForeignTraffic()
        self._joined = False  # at the last look
        self._counted = 1  # connections of others, at the last count
        self.faster = False  # than it is said to be
        self._judged_ns, self._judged_bytes = 0, 0.0  # while others passed and wanted much
        self._asked: dict[int, Asked] = {}
        self._told_bps: dict[int, float] = {}  # guarantees
        self._device = (0, 0)  # when it was last asked, and what it had sent by then ...
        self._before: tuple[int, int, dict[int, int]] | None = None  # ... and the same with what each class had
        self._looked_ns = 0  # how long the last look goes back; 0: nothing was there to compare with
        self._sending: set[int] = set()  # classes that had something to send at the last look
        self._flows_ns = self._others_ns = self._counted_ns = -_REST_NS  # when they last wanted much

    def set_class(self, minor: int, asked: Asked) -> list[Message]:
        """The messages that change the class, or make it."""
        self._asked[minor] = asked
        return self._tell(minor, self._divided().get(minor, _promised_bps(asked)))

    def lost_class(self, minor: int) -> None:
        self._told_bps.pop(minor, None)
        self.tree.lost_class(minor)

    def rates(self) -> Mapping[int, tuple[float, float]]:
        """(guarantee, ceiling) by minor: as asked for, where the kernel has what it was told; else the kernel's."""
        found = dict(self.tree.rates())
        for minor, told_bps in self._told_bps.items():
            if minor in self._asked and minor in found:
                rate_bps, ceiling_bps = found[minor]
                promised_bps = _promised_bps(self._asked[minor])
                if told_bps < promised_bps and self._same(rate_bps, max(told_bps, self.tree.least_bps)):
                    found[minor] = promised_bps, ceiling_bps
        return found

    def look(self, now_ns: int, sockets: Look, *, joined: bool = False) -> list[tuple[int, Message]]:
        """Every slot: the messages of classes whose guarantee changes, by minor. `sockets` finds those of others;
        `joined`: flows that leave here are among them, because their limits were lifted. Raises OSError."""
        if self._joined and not joined:  # what they sent is none of the others' any more
            self._others_ns = -_REST_NS
        self._joined = joined
        if self.faster or not self._asked or self._may_wait(now_ns):
            return []
        others_bps, flows_bps = self._use_bps(now_ns)
        much_bps = MUCH * self.tree.link_bps
        if others_bps > much_bps:
            self._others_ns = now_ns
            if not joined:
                self._judge(others_bps + flows_bps)
            self._foreign.sent(transfer_bytes(others_bps, self._looked_ns), self._looked_ns)
            if now_ns - self._counted_ns >= _COUNT_NS:
                self._count(now_ns, sockets)
        self.foreign = self._foreign.is_there(now_ns)
        if self._looked_ns:
            counts = others_bps > much_bps and (self.foreign or not joined)
            self._load.note(self._looked_ns, others_bps if counts else 0.0, self._theirs_bps())
        if flows_bps > much_bps:
            self._flows_ns = now_ns
        both = now_ns - min(self._others_ns, self._flows_ns) < _REST_NS
        known = self._judged_ns >= _JUDGED_NS and not self.faster
        return self._begin_or_go_on(now_ns, sockets) if both and known else self._end()

    def _count(self, now_ns: int, sockets: Look) -> None:
        """How many others are, and whether some of them are of no job."""
        found, self._counted_ns = sockets(), now_ns
        self._counted = max(1, found.sending)
        self._foreign.sample(found.of_jobs, self.tree.link_bps, now_ns)

    def _may_wait(self, now_ns: int) -> bool:
        """It is not long since the last look, and others have wanted little for some time (they are not divided from
        flows within a second of their first bytes anyway), or are jobs, as far as is known."""
        alone = now_ns - self._others_ns >= _REST_NS or (self._joined and not self.foreign)
        return alone and now_ns - self._device[0] < _SELDOM_NS

    def has_speed(self, link_bps: float) -> None:
        """The device's is another from now on: a bond has lost a member, or has it back; raises OSError. Classes hear
        of it when they are set again."""
        self.tree.link_bps = link_bps
        self.tree.set_link(HERE * link_bps if self.connections else link_bps)
        self._told_bps.clear()
        self.faster, self._judged_ns, self._judged_bytes = False, 0, 0.0

    @property
    def others(self) -> Others:
        """Nothing of a device that sends more than its link is said to carry: nobody knows how full it is."""
        if self.faster:
            return Others()
        return Others(self.connections, self._load.sent_bps, self._load.load_bps, self.foreign)

    def _theirs_bps(self) -> float:
        """What others are guaranteed, or would be, beside the flows that send."""
        weights = sum(self._asked[minor].weight for minor in self._sending if minor in self._asked)
        return HERE * self.tree.link_bps * others_part(max(1, self.connections), max(1.0, weights))

    def _judge(self, sent_bps: float) -> None:
        if self._judged_ns < _JUDGED_NS:
            self._judged_bytes += sent_bps * self._looked_ns / NS_PER_S / BITS_PER_BYTE
            self._judged_ns += self._looked_ns
            if self._judged_ns >= _JUDGED_NS:
                carries_bytes = FASTER * transfer_bytes(self.tree.link_bps, self._judged_ns)
                self.faster = self._judged_bytes > carries_bytes

    def _use_bps(self, now_ns: int) -> tuple[float, float]:
        """Of others and of flows, since the last look. While the device sends little, classes are not asked."""
        device = self.tree.sent_bytes()
        (idle_ns, idle_bytes), self._device = self._device, (now_ns, device)
        self._looked_ns = now_ns - idle_ns if idle_ns else 0
        if not self.connections and device - idle_bytes < MUCH * transfer_bytes(self.tree.link_bps, now_ns - idle_ns):
            self._before, self._sending = None, set()
            return 0.0, 0.0
        used = self.tree.use()
        if self.connections and OTHERS_MINOR not in used:  # another program deleted it: once more, from the beginning
            self.connections = 0
            self.lost_class(OTHERS_MINOR)
            self.tree.set_others_apart(False)
        by_class = {minor: use.sent_bytes for minor, use in used.items()}
        before_ns, device_before, before = self._before or (now_ns, device, by_class)
        self._before = now_ns, device, by_class
        sent = {minor: size - before.get(minor, 0) for minor, size in by_class.items()}
        self._sending = {minor for minor, use in used.items() if use.waiting or sent[minor] > 0}
        in_tree, apart = sent.get(LINK_MINOR, 0), sent.get(OTHERS_MINOR, 0)
        others = max(0, device - device_before - in_tree) + apart
        self._looked_ns = now_ns - before_ns
        per_s = BITS_PER_BYTE * NS_PER_S / max(1, self._looked_ns)
        return others * per_s, (in_tree - apart) * per_s

    def _begin_or_go_on(self, now_ns: int, sockets: Look) -> list[tuple[int, Message]]:
        if begins := not self.connections:
            self._count(now_ns, sockets)
        self.connections = self._counted
        return self._begin() if begins else list(self._changes())

    def _begin(self) -> list[tuple[int, Message]]:
        changes = list(self._changes())
        self.tree.make_others(message for minor, message in changes if minor == OTHERS_MINOR)
        self.tree.set_link(HERE * self.tree.link_bps)
        return [(minor, message) for minor, message in changes if minor != OTHERS_MINOR]

    def _end(self) -> list[tuple[int, Message]]:
        if not self.connections:
            return []
        self.tree.set_others_apart(False)
        self.tree.set_link(self.tree.link_bps)
        self.connections = 0  # else it is tried again
        return list(self._changes())

    def _changes(self) -> Iterator[tuple[int, Message]]:
        divided = self._divided()
        wanted = {minor: divided.get(minor, _promised_bps(asked)) for minor, asked in self._asked.items()}
        wanted[OTHERS_MINOR] = divided.get(OTHERS_MINOR, self.tree.link_bps)  # what is queued leaves
        for minor, rate_bps in wanted.items():
            told_bps = self._told_bps.get(minor)
            if told_bps is None or not self._same(rate_bps, told_bps):
                yield from ((minor, message) for message in self._tell(minor, rate_bps))

    def _divided(self) -> dict[int, float]:
        """What is guaranteed while the link is divided: to others, and to those that send."""
        if not self.connections:
            return {}
        wants = {
            minor: Want(asked.rate_bps, asked.weight) for minor, asked in self._asked.items() if minor in self._sending
        }
        others_bps, flows_bps = divide(HERE * self.tree.link_bps, self.connections, wants)
        return flows_bps | {OTHERS_MINOR: others_bps}

    def _tell(self, minor: int, rate_bps: float) -> list[Message]:
        self._told_bps[minor] = rate_bps
        ceiling_bps = self._asked[minor].ceiling_bps if minor in self._asked else UNLIMITED
        return self.tree.set_class(minor, rate_bps, ceiling_bps)

    def _same(self, one_bps: float, other_bps: float) -> bool:
        return abs(one_bps - other_bps) <= _CLOSE * self.tree.link_bps


def _promised_bps(asked: Asked) -> float:
    """Of a guarantee that was lifted nothing is left (htb.py)."""
    return asked.rate_bps if asked.rate_bps < UNLIMITED else 0.0

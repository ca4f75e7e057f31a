"""htb: a class per flow, its guarantee served first and what other classes leave borrowed up to its ceiling.

    socket ── SO_PRIORITY = the class's handle ──▶ class ace:N on the device its local address is on

Every device has the same class numbers, so a socket's priority is right wherever its packets leave. A flow whose
sockets leave through several devices has its limit divided among them by their number. A device is set up when the
first socket of a flow needs it: one that appears later is found then, and one that carries no flow is never
touched.

While a flow's limit is lifted (nobody competes with its job) its sockets have the priority that they had before hostd
came, and are in no class: to the kernel they are sockets like any.

A socket that has another priority, because its job has changed it, is put back about once a second, and from then on
its packets are in its class whatever the job does (class_filter.py).

The priority does not survive a veth: for a job in a container with a network of its own it is out of reach, and its
sockets come back as errors (use pacing).

Packets of no flow are in a class of their own (htb_device.py), and once they want more than little of the link it is
divided between them and the flows that send (own_link.py), as TCP would.

The class of a lifted limit has "nothing guaranteed, all may be borrowed", because a guarantee beyond the link's rate
would be sent without asking the link's class, and leave it in debt for as long afterwards. What a class borrows is not
charged to it; what it sent on its guarantee is, and htb_device.py says how that debt is kept small.
"""

import errno
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hostd.enforce.base import OfJobs, Others
from hostd.enforce.errors import CannotEnforce, EnforcementError, ErrorKind, about, kind_of, not_restored
from hostd.enforce.htb_device import FIRST_MINOR, LAST_MINOR, MAJOR, HtbDevice
from hostd.enforce.own_link import Asked, OthersSockets, OwnLink
from hostd.enforce.socket_options import SO_PRIORITY, SocketOptions
from hostd.enforce.transport import AS_THE_KERNEL, Transport
from hostd.kernel.calls import perform
from hostd.kernel.connections import connections
from hostd.kernel.devices import link_speed_bps, read_devices
from hostd.kernel.netlink import Message, Netlink, means_absent
from hostd.kernel.sockets import DataSocket, own_namespace
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD, TcpCounters
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import UNLIMITED

# How long a bundle of segments may keep the link busy (htb_device.py). Smaller ones slow a job that is alone, for the
# CPU they cost (`paceline bench paper alone`).
BUNDLE_NS = 320_000

SPEED_EVERY = 10  # seconds, about
MOST_LOOKED_AT = 64  # sockets in a second, whether they are in their class


@dataclass(slots=True)
class _Flow:
    minor: int
    limit: Limit
    sockets: tuple[DataSocket, ...] = ()  # that are to have its priority
    controlled: set[DataSocket] = field(default_factory=set)  # that have it
    outside: set[DataSocket] = field(default_factory=set)  # of these, that had another priority once
    share: Mapping[str, float] = field(default_factory=dict)  # of the limit, by device
    aside: bool = False  # in no class, because its limit was lifted
    settled: bool = True  # its sockets are known to have the priority that they should


class _Change(NamedTuple):
    link: OwnLink
    minor: int
    message: Message


class HtbBackend:
    name = "htb"

    def __init__(
        self,
        undo_log: UndoLog,
        link_bps: Callable[[str], float | None] = link_speed_bps,
        *,
        bundle_ns: int | None = BUNDLE_NS,
        takeover: bool = False,
        transport: Transport = AS_THE_KERNEL,
    ) -> None:
        """`link_bps` says how fast a device is, by name; bundle_ns None leaves bundles as they are."""
        self._undo_log = undo_log
        self._link_bps = link_bps
        self._bundle_ns = bundle_ns
        self._takeover = takeover
        self._netlink = Netlink()
        self._namespace = own_namespace()
        self._options = SocketOptions(undo_log, SO_PRIORITY, transport)
        self._present = read_devices(self._netlink)
        self._links: dict[str, OwnLink] = {}
        self._flows: dict[FlowId, _Flow] = {}
        self._waiting: dict[FlowId, Limit] = {}  # limits of flows not attached yet
        self._refreshed = 0
        self._looked_at = 0  # sockets, in this round over all of them
        self._free_minors = list(range(LAST_MINOR, FIRST_MINOR - 1, -1))

    def set_up(self, name: str) -> HtbDevice:
        """Our tree on this device, made if it is not there; raises CannotEnforce or OSError."""
        if name not in self._links:
            device = self._present[name]
            self._links[name] = OwnLink(
                HtbDevice(self._netlink, self._undo_log, device, self._link_bps(name), self._bundle_ns, self._takeover)
            )
        return self._links[name].tree

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        state = self._flows.get(flow)
        if state is None:
            limit = self._waiting.pop(flow, Limit(flow, UNLIMITED, UNLIMITED))
            state = self._flows[flow] = _Flow(self._free_minors.pop(), limit)
        within = tuple(one for one in sockets if one.namespace == self._namespace)
        state.sockets = within
        errors = [
            EnforcementError(ErrorKind.NAMESPACE, f"process {one.pid} has a network of its own")
            for one in sockets
            if one not in within
        ]
        # The class is there before the first packet asks for it.
        errors += self._place(state) + self._control(state)
        return about(flow, errors)

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        self._waiting.pop(flow, None)
        state = self._flows.get(flow)
        if state is None:
            return []
        # Lifted first: what is queued leaves before the sockets' next packets take another way. The class stays, for
        # the next flow: deleting it would drop what it holds.
        lifted, left = self._set_classes([Limit(flow, UNLIMITED, UNLIMITED)]), [*state.controlled]
        errors = self._restore(state, left)
        del self._flows[flow]
        # Where a socket keeps its priority for now, its packets must not come into another flow's class: that is the
        # last one to be given away again.
        self._free_minors.insert(0 if self._options.owes(left) else len(self._free_minors), state.minor)
        return about(flow, lifted + errors)

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        """One send for all classes of these flows."""
        errors: list[EnforcementError] = []
        for limit in limits:
            if (state := self._flows.get(limit.flow)) is not None:
                errors += about(limit.flow, self._step_in_or_aside(state, limit.lifted))
        return errors + self._set_classes(limits)

    def _set_classes(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        changes: list[_Change] = []
        for limit in limits:
            state = self._flows.get(limit.flow)
            if state is None:
                self._waiting[limit.flow] = limit
                continue
            state.limit = limit
            # Beside others a flow that is promised nothing does not count: another stands for it.
            weight = limit.stands_for if limit.rate_bps > FLOOR_BPS else 0.0
            for name, share in state.share.items():
                if (link := self._links.get(name)) is None:
                    continue  # it has gone, and refresh() has found no place for the flow yet
                asked = Asked(limit.rate_bps * share, limit.ceiling_bps * share, weight * share)
                changes += [_Change(link, state.minor, one) for one in link.set_class(state.minor, asked)]
        return self._change(changes)

    def _step_in_or_aside(self, state: _Flow, lifted: bool) -> list[EnforcementError]:
        """Out of its class when its limit is lifted, and into it again before the next one holds. A flow that was never
        limited is in its class: its first limit holds at once."""
        if lifted == state.aside and state.settled:
            return []
        state.aside = lifted
        if lifted:
            errors = self._options.as_before(state.controlled, SO_PRIORITY)
        else:
            errors = self._options.set(state.controlled, SO_PRIORITY, _priority(state))
        errors = [error for error in errors if error.kind is not ErrorKind.GONE]  # with its job, say
        state.settled = not errors  # else refresh() tries again: a late one may have been, or not
        return errors

    def watch_others(self, of_jobs: OfJobs = frozenset) -> list[EnforcementError]:
        now_ns, changes, errors = time.monotonic_ns(), list[_Change](), list[EnforcementError]()
        aside = {name for state in self._flows.values() if state.aside for name in state.share}
        for name, link in self._links.items():
            try:
                sockets = lambda: self._others_of(name, of_jobs())  # noqa: B023, E731 - called at once
                found = link.look(now_ns, sockets, joined=name in aside)
            except OSError as error:  # refresh() says what has become of the device
                errors.append(EnforcementError(kind_of(error), f"cannot read classes of {name}: {error.strerror}"))
            else:
                changes += [_Change(link, minor, message) for minor, message in found]
        return errors + self._change(changes)

    def others(self) -> dict[str, Others]:
        return {name: link.others for name, link in self._links.items()}

    def _others_of(self, name: str, of_jobs: Container[int]) -> OthersSockets:
        device = self._present.get(name)  # it may have another name since
        if device is None:
            return OthersSockets()
        local = {address for one in self._present.values() for address in one.addresses}
        inside = {one.cookie for state in self._flows.values() if not state.aside for one in state.controlled}
        found = {cookie: one for cookie, one in connections(device.addresses, local).items() if cookie not in inside}
        carried = {cookie: WIRE_PER_PAYLOAD * one.sent_bytes for cookie, one in found.items() if cookie in of_jobs}
        return OthersSockets(sum(one.sends for one in found.values()), carried)

    def _change(self, changes: Sequence[_Change]) -> list[EnforcementError]:
        try:
            failed = self._netlink.send([change.message for change in changes])
        except OSError as error:  # no memory for the answers, say: refresh() sends all again
            return [EnforcementError(kind_of(error), f"netlink: {error.strerror}")]
        return self._refused({changes[index]: why for index, why in failed.items()})

    def refresh(self) -> list[EnforcementError]:
        self._present = read_devices(self._netlink)
        name_of = {device.ifindex: name for name, device in self._present.items()}
        links, self._links = self._links, {}
        for name, link in links.items():
            if (name_now := name_of.get(link.tree.device.ifindex)) is None:
                link.tree.forget_device()  # a namesake is set up anew
                continue
            self._links[name_now] = link
            if name_now != name:
                for state in self._flows.values():
                    state.share = {name_now if one == name else one: part for one, part in state.share.items()}
        errors = self._follow_speeds()
        for flow, state in self._flows.items():
            errors += about(
                flow, self._find_place(state) + self._step_in_or_aside(state, state.aside) + self._control(state)
            )
        errors += self._set_classes([state.limit for state in self._flows.values()])
        return errors + self._put_back()

    def _follow_speeds(self) -> list[EnforcementError]:
        """Seldom: with some drivers asking takes milliseconds."""
        self._refreshed += 1
        errors: list[EnforcementError] = []
        for name, link in self._links.items() if self._refreshed % SPEED_EVERY == 0 else ():
            bps = self._link_bps(name)
            if bps is not None and bps != link.tree.link_bps:
                try:
                    link.has_speed(bps)
                except OSError as error:
                    errors.append(EnforcementError(kind_of(error), f"{name}: {error.strerror}"))
        return errors

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> list[EnforcementError]:
        return self._options.watch_losses(read)

    def read_back(self) -> dict[FlowId, Limit]:
        rates = {name: link.rates() for name, link in self._links.items()}
        found = {}
        for flow, state in self._flows.items():
            there = [rates[name][state.minor] for name in state.share if state.minor in rates.get(name, {})]
            if state.aside and state.share:
                found[flow] = Limit(flow, UNLIMITED, UNLIMITED)
            elif there and state.controlled:
                found[flow] = Limit(flow, sum(rate for rate, _ in there), sum(ceiling for _, ceiling in there))
        return found

    def close(self) -> list[EnforcementError]:
        problems = self._undo_log.close()
        self._netlink.close()
        return not_restored(problems)

    def _place(self, state: _Flow) -> list[EnforcementError]:
        """A class on every device the flow's sockets leave through, with its part of the limit."""
        return self._find_place(state) + self._set_classes([state.limit])

    def _find_place(self, state: _Flow) -> list[EnforcementError]:
        """Which devices those are; they are set up."""
        name_of = self._addresses()
        if not {one.local for one in state.sockets} <= name_of.keys():
            self._present = read_devices(self._netlink)  # a device or an address that has come since
            name_of = self._addresses()
        errors, count = list[EnforcementError](), Counter[str]()
        for one in state.sockets:
            name = name_of.get(one.local)
            try:
                if name is None:
                    raise CannotEnforce(f"no device has the address {one.local}", ErrorKind.DEVICE)
                self.set_up(name).expect_flows(len(self._flows))
                count[name] += 1
            except (CannotEnforce, OSError) as error:
                errors.append(EnforcementError.of(error))
        state.share = {name: number / count.total() for name, number in count.items()}
        return errors

    def _control(self, state: _Flow) -> list[EnforcementError]:
        """Its priority for those of its sockets that have it not yet, and for none that left."""
        by_itself = state.limit.flow.role is Role.RING
        fresh, errors = self._options.record([one for one in state.sockets if one not in state.controlled], by_itself)
        state.controlled.update(fresh)
        inside = () if state.aside else fresh
        if refused := self._options.set_each([(one, SO_PRIORITY, _priority(state)) for one in inside]):
            errors += refused.values()
            errors += self._restore(state, refused)
        return errors + self._restore(state, state.controlled.difference(state.sockets))

    def _put_back(self) -> list[EnforcementError]:
        """Sockets that their job took out of their class; where there are many, some at a time."""
        inside = [(flow, state) for flow, state in self._flows.items() if not state.aside and state.settled]
        every = [(flow, state, one) for flow, state in inside for one in state.controlled]
        some = every[self._looked_at : self._looked_at + MOST_LOOKED_AT]
        self._looked_at = 0 if len(some) < MOST_LOOKED_AT else self._looked_at + MOST_LOOKED_AT
        calls = [("get", one.pid, one.fd, one.cookie, *SO_PRIORITY, 4) for _, _, one in some]
        errors: list[EnforcementError] = []
        for (flow, state, one), found in zip(some, perform(calls), strict=True):
            priority = _priority(state)
            if isinstance(found, bytes) and found != priority:
                state.outside.add(one)
                why = f"process {one.pid} took a socket out of its class (SO_PRIORITY, IP_TOS); it is put back"
                errors += about(flow, [EnforcementError(ErrorKind.EVADED, why)])
                errors += about(flow, self._options.set([one], SO_PRIORITY, priority))
        name_of = self._addresses()
        for name, link in self._links.items():
            by_flow = [(one, state.minor) for _, state in inside for one in state.outside]
            try:
                link.tree.filter({one: minor for one, minor in by_flow if name_of.get(one.local) == name})
            except OSError as error:
                errors.append(EnforcementError(kind_of(error), f"no filter on {name}: {error.strerror}"))
        return errors

    def _restore(self, state: _Flow, sockets: Iterable[DataSocket]) -> list[EnforcementError]:
        left = list(sockets)
        state.controlled.difference_update(left)
        state.outside.difference_update(left)
        return self._options.restore(left)

    def _addresses(self) -> dict[str, str]:
        """Of devices that carry what leaves the host. Where routes lead to it, its address may be on the loopback."""
        outward = {name: device for name, device in self._present.items() if not device.loopback}
        return {address: name for name, device in outward.items() for address in device.addresses}

    def _refused(self, changes: Mapping[_Change, OSError]) -> list[EnforcementError]:
        """What has gone is made anew the next time: a class by apply, a whole tree by refresh."""
        errors: list[EnforcementError] = []
        suspect: dict[str, HtbDevice] = {}
        flow_of = {state.minor: flow for flow, state in self._flows.items()}
        for (link, minor, _), why in changes.items():
            tree = link.tree
            if means_absent(why):
                link.lost_class(minor)
            if why.errno == errno.ENOENT:
                suspect[tree.device.name] = tree
            reason = f"class {minor:x} on {tree.device.name}: {why.strerror}"
            errors.append(EnforcementError(kind_of(why), reason, flow_of.get(minor)))
        for name, tree in suspect.items():
            if not tree.stands():
                del self._links[name]
                tree.forget_tree()
                reason = f"{name}: another program deleted or replaced hostd's root qdisc"
                errors.append(EnforcementError(ErrorKind.FOREIGN_QDISC, reason))
        return errors


def _priority(state: _Flow) -> bytes:
    return (MAJOR | state.minor).to_bytes(4, "little")

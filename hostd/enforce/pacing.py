"""pacing: TCP itself spaces out a socket's packets (SO_MAX_PACING_RATE); no qdisc, no class, nothing on the device.

Sockets cannot borrow from each other as classes can, so what they may borrow is computed, as HTB would:

    rate_i = guarantee_i + an equal share of what the guarantees leave of the link, up to ceiling_i

over the flows of a NIC that were guaranteed something. To other flows (a guarantee of FLOOR_BPS or less: idle, about to
start, or given nothing) all of that is open, up to their ceilings, and none of it is set aside: most of them send
nothing, and when two of them do, TCP shares it out until the next apply. What a flow does not use is lost until then,
hence events and not only slots should apply. A flow's rate is divided equally over its sockets, which carry data all of
them (sockets.py).

TCP paces payload, a link carries headers as well: rate × mss/(mss + headers). A lower rate takes effect at once, a
higher one when up to two bundles have been paid for at the old rate, so bundles must be small: TCP makes them one
millisecond long, unless the round trip is short, where it adds up to 64 KB for the sake of CPU. `tcp_tso_rtt_log` = 0
turns that off. It is a sysctl of the network namespace and speaks for every socket there; it is set only if allowed.

On fast links they must not be too small either: one that is over sooner than a timer can follow leaves the flow short.
With the kernel's 64 KB one socket holds 5 Gbit/s, and several hold 10 (docs/hostd.md).

Known limit: a socket that was paced once stays paced by TCP (at its own estimate, twice what it needs) after the
limit is lifted; the kernel has no way back from that.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostd.enforce.base import OfJobs, Others
from hostd.enforce.errors import EnforcementError, about, not_restored
from hostd.enforce.socket_options import SO_MAX_PACING_RATE, SocketOptions
from hostd.enforce.transport import AS_THE_KERNEL, Transport
from hostd.kernel.calls import PATIENT_S, Answer, NotAnswered, counters_of, perform
from hostd.kernel.pidfd import SocketGone
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from hostd.safety.undo import SysctlUndo
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.allocation.fairshare import max_min
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import RAIL
from paceline.flowcore.model.units import BITS_PER_BYTE, UNLIMITED

# The least that pacing holds a flow to without a debt that outlives the limit. A policy's limits have a floor already
# (FLOOR_BPS, 1 Mbit/s), but lifted from that a paced flow had a third of its first 60 ms, from 10 Mbit/s nine tenths.
# However many sockets it has, none of them is held below FLOOR_BPS.
PACING_FLOOR_BPS = 1e7

TSO_RTT_LOG = Path("/proc/sys/net/ipv4/tcp_tso_rtt_log")

# Ethernet 14, IP 20 or 40, TCP 20 with 12 of timestamps.
_HEADER_BYTES = {False: 66, True: 86}
_UNLIMITED_BYTES_PER_S = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(slots=True)
class _Flow:
    limit: Limit
    sockets: tuple[DataSocket, ...] = ()  # that are to be paced
    payload: dict[DataSocket, float] = field(default_factory=dict)  # of those controlled: the wire's part of payload


class PacingBackend:
    name = "pacing"

    def __init__(
        self,
        undo_log: UndoLog,
        link_bps: float = UNLIMITED,
        *,
        small_tso_bursts: bool = False,
        transport: Transport = AS_THE_KERNEL,
    ) -> None:
        """`small_tso_bursts` allows tcp_tso_rtt_log to be set; raises OSError when that fails."""
        self._undo_log = undo_log
        self._link_bps = link_bps
        self._options = SocketOptions(undo_log, SO_MAX_PACING_RATE, transport)
        self._flows: dict[FlowId, _Flow] = {}
        self._waiting: dict[FlowId, Limit] = {}
        self._set: dict[DataSocket, int] = {}  # bytes per second; what is in force is not set again
        if small_tso_bursts and (before := TSO_RTT_LOG.read_text()).strip() != "0":
            undo_log.record({"sysctl tcp_tso_rtt_log": SysctlUndo(str(TSO_RTT_LOG), before)})
            TSO_RTT_LOG.write_text("0")

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        state = self._flows.get(flow)
        if state is None:
            limit = self._waiting.pop(flow, Limit(flow, UNLIMITED, UNLIMITED))
            state = self._flows[flow] = _Flow(limit)
        state.sockets = tuple(sockets)
        return about(flow, self._control(state)) + self._pace()

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        self._waiting.pop(flow, None)
        state = self._flows.pop(flow, None)
        if state is None:
            return []
        return about(flow, self._options.restore(self._leave(state.payload))) + self._pace()

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        for limit in limits:
            if limit.flow in self._flows:
                self._flows[limit.flow].limit = limit
            else:
                self._waiting[limit.flow] = limit
        return self._pace()

    def refresh(self) -> list[EnforcementError]:
        """A socket does not care which device it leaves through."""
        errors: list[EnforcementError] = []
        for flow, state in self._flows.items():
            errors += about(flow, self._control(state))
        return errors + self._pace()

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> list[EnforcementError]:
        return self._options.watch_losses(read)

    def watch_others(self, of_jobs: OfJobs = frozenset) -> list[EnforcementError]:
        return []

    def others(self) -> dict[str, Others]:
        return {}

    def read_back(self) -> dict[FlowId, Limit]:
        sockets = [one for state in self._flows.values() for one in state.payload]
        calls = [("get", one.pid, one.fd, one.cookie, *SO_MAX_PACING_RATE, 8) for one in sockets]
        answers = dict(zip(sockets, perform(calls, PATIENT_S), strict=True))
        found = {}
        for flow, state in self._flows.items():
            if state.payload and not any(isinstance(answers[one], NotAnswered) for one in state.payload):
                rate_bps = sum(_kernel_bps(answers[one], part) for one, part in state.payload.items())
                found[flow] = Limit(flow, rate_bps, rate_bps)
        return found

    def close(self) -> list[EnforcementError]:
        self._set.clear()
        return not_restored(self._undo_log.close())

    def _control(self, state: _Flow) -> list[EnforcementError]:
        """Those of its sockets that are not controlled yet, and none that left."""
        by_itself = state.limit.flow.role is Role.RING
        fresh, errors = self._options.record([one for one in state.sockets if one not in state.payload], by_itself)
        left = [one for one in state.payload if one not in state.sockets]
        kept = {one: part for one, part in state.payload.items() if one in state.sockets}
        state.payload = kept | {
            one: _payload_part(one, found) for one, found in zip(fresh, counters_of(fresh), strict=True)
        }
        return errors + self._options.restore(self._leave(left))

    def _pace(self) -> list[EnforcementError]:
        flow_of: dict[DataSocket, FlowId] = {}
        changed: dict[DataSocket, int] = {}
        for state, rate_bps in self._rates_bps():
            for one, part in state.payload.items():
                bytes_per_s = _UNLIMITED_BYTES_PER_S
                if rate_bps < UNLIMITED:
                    own_bps = max(max(rate_bps, PACING_FLOOR_BPS) / len(state.payload), FLOOR_BPS)
                    bytes_per_s = round(own_bps * part / BITS_PER_BYTE)
                if self._set.get(one) != bytes_per_s:
                    changed[one], flow_of[one] = bytes_per_s, state.limit.flow
        values = [(one, SO_MAX_PACING_RATE, rate.to_bytes(8, "little")) for one, rate in changed.items()]
        refused = self._options.set_each(values)
        self._set |= {one: rate for one, rate in changed.items() if one not in refused}
        return [replace(error, flow=flow_of[one]) for one, error in refused.items()]

    def _rates_bps(self) -> Iterator[tuple[_Flow, float]]:
        """Flows borrow on the NIC that they leave through."""
        by_rail: dict[str, list[_Flow]] = {}
        for state in self._flows.values():
            by_rail.setdefault(state.limit.flow.target.partition(RAIL)[2], []).append(state)
        for states in by_rail.values():
            yield from zip(states, borrowing([state.limit for state in states], self._link_bps), strict=True)

    def _leave(self, sockets: Iterable[DataSocket]) -> list[DataSocket]:
        left = list(sockets)
        for one in left:
            self._set.pop(one, None)
        return left


def borrowing(limits: Sequence[Limit], link_bps: float) -> list[float]:
    """What each flow may send: its guarantee and its share of what the guarantees leave; without one, all of that."""
    busy = [index for index, limit in enumerate(limits) if FLOOR_BPS < limit.rate_bps < UNLIMITED]
    firm = [min(limits[index].rate_bps, limits[index].ceiling_bps) for index in busy]
    left_bps = max(0.0, link_bps - sum(firm))
    room = [limits[index].ceiling_bps - rate for index, rate in zip(busy, firm, strict=True)]
    rates = [min(limit.ceiling_bps, max(limit.rate_bps, left_bps)) for limit in limits]
    for index, rate, more in zip(busy, firm, max_min([[0]] * len(busy), room, [left_bps]), strict=True):
        rates[index] = rate + more
    return rates


def _payload_part(one: DataSocket, found: TcpCounters | SocketGone | OSError) -> float:
    if not isinstance(found, TcpCounters):
        return 1.0  # setting it will fail and say why
    return found.mss_bytes / (found.mss_bytes + _HEADER_BYTES[":" in one.remote])


def _kernel_bps(answer: Answer, payload_part: float) -> float:
    if isinstance(answer, (SocketGone, OSError)):
        return 0.0
    bytes_per_s = int.from_bytes(answer, "little")
    return UNLIMITED if bytes_per_s == _UNLIMITED_BYTES_PER_S else bytes_per_s * BITS_PER_BYTE / payload_part

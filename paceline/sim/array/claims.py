"""What is claimed: the flows of each job, by host, as their hosts and the switches would know them.

A host part is a job's part on one host: what a HostAgent keeps the state of and bids for. A contender is what an
arbiter divides links among: all host parts of a job together, or under a host-only policy each host part for itself.
The states and rules are flowcore's: a flow's phase, its stalls, a job's progress.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from paceline.flowcore.allocation.alone import alone_ns
from paceline.flowcore.allocation.arbiters import count_links, most_urgent
from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.host.flow_phase import PhasedFlow, all_stalled
from paceline.flowcore.host.policy import JobState, Policy
from paceline.flowcore.messages.reports import Bid, Grant
from paceline.flowcore.model.domain import keepers, other_switches
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from paceline.sim.array.columns import NONE, UNDECIDED, FlowColumns, PartColumns, ProgressRow
from paceline.sim.array.control import NetworkJob
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.kernel.flow_table import FloatCells, cells

MOST_COUNTED = 64  # sets of flows of a job that claimed together


class Counters(NamedTuple):
    """Of all flows, by row, as they were at the start of a slot."""

    taken_ns: int
    sent: FloatCells
    goal: FloatCells

    @classmethod
    def take(cls, network: ArrayNetwork, now_ns: int) -> "Counters":
        return cls(now_ns, cells(network.sent.copy()), cells(network.goal.copy()))


@dataclass(slots=True, kw_only=True, eq=False)
class ArrayFlow(PhasedFlow):
    id: FlowId
    number: int  # its row in the network
    part: "HostPart"
    host: int
    nic_bps: float
    size_bytes: float
    links: tuple[str, ...]  # what the policy sees of its path ...
    seen: tuple[int, ...]  # ... by number
    passes: tuple[str, ...]  # the other switches that are told of it because it crosses their links
    columns: FlowColumns
    iterations: int = 0  # begun: a grant for the last one is void
    entered: bool = False  # the arbiter counts it
    begun_bytes: float = 0.0  # F when its bytes began to wait
    firm_bps: float = 0.0  # what it is guaranteed now ...
    _promised_ns: int = 0  # ... and since when
    _promised_bits_ns: float = 0.0  # before that, in this slot
    _granted: Grant | None = None  # the last one, which may be void by now

    @property
    def bid(self) -> Bid:
        """As the arbiter knows it."""
        return self.columns.bid(self.number)

    def begin(self, begun_bytes: float, now_ns: int) -> None:
        """Its bytes wait."""
        self.next_iteration()
        cells = self.columns.cells
        cells.granted[self.number], cells.ready_ns[self.number] = UNDECIDED, now_ns
        self.bytes_wait(now_ns)
        self.stalls.begin_burst()
        self.begun_bytes = begun_bytes
        self._promised_ns, self._promised_bits_ns = now_ns, 0.0

    def promise(self, firm_bps: float, now_ns: int, slot_start_ns: int) -> None:
        """What it is guaranteed from now on."""
        self._promised_bits_ns = self._bits_ns(now_ns, slot_start_ns)
        self.firm_bps, self._promised_ns = firm_bps, now_ns

    def _bits_ns(self, now_ns: int, slot_start_ns: int) -> float:
        if self._promised_ns < slot_start_ns:
            return self.firm_bps * (now_ns - slot_start_ns)
        return self._promised_bits_ns + self.firm_bps * (now_ns - self._promised_ns)

    def close_slot(self, slot: int, began: "Counters", now_ns: int, slot_ns: int, sent_bytes: float) -> None:
        """Note whether its share was used in the slot that began with these counters."""
        start_ns, before_bytes = began.taken_ns, self.begun_bytes
        busy_ns = now_ns - max(self.ready_ns, start_ns)
        if self.ready_ns <= start_ns:
            before_bytes = began.sent[self.number]
        if busy_ns > 0:
            promised_bps = self._bits_ns(now_ns, start_ns) / busy_ns
            self.stalls.observe(slot, slot_ns, busy_ns, promised_bps, sent_bytes - before_bytes)

    def next_iteration(self) -> None:
        """What is on its way to the flow is void."""
        self.iterations += 1
        self.columns.cells.begun[self.number] = self.iterations

    def claim_anew(self) -> None:
        """Without the grant it had."""
        self.columns.cells.granted[self.number] = UNDECIDED
        self.lose_grant()

    def take(self, share_bps: float, ceiling_bps: float, slot: int) -> None:
        """What an arbiter grants; there are no plans here."""
        self.columns.cells.granted[self.number] = share_bps
        granted = self._granted  # most often the same as before
        if granted is None or granted.share_bps != share_bps or granted.ceiling_bps != ceiling_bps:
            granted = self._granted = Grant(self.id, True, share_bps, ceiling_bps, (), (), 0, UNLIMITED, 0.0)
        self.take_grant(granted, slot)


@dataclass(slots=True, eq=False)
class Claimed:
    """The flows of a contender that the arbiter counts: they come back iteration after iteration."""

    numbers: tuple[int, ...]  # rows, in order ...
    rows: Ints  # ... and in an array
    flows_on: dict[str, int]  # by link, how many
    crossed: tuple[int, ...]  # the links' numbers ...
    links: Ints  # ... in an array ...
    counts: Floats  # ... beside how many

    @classmethod
    def of(cls, flows: Sequence[ArrayFlow]) -> "Claimed":
        numbers = tuple(flow.number for flow in flows)
        counted = count_links(flow.seen for flow in flows)
        crossed, counts = tuple(counted), np.array(list(counted.values()), np.float64)
        flows_on = count_links(flow.links for flow in flows)
        return cls(numbers, np.array(numbers), flows_on, crossed, np.array(crossed), counts)


@dataclass(slots=True, eq=False)
class ContenderState:
    name: str
    level: int  # tiers of switches its paths climb; 0 under a host-only policy
    delay_ns: int  # from a claim to the arbiter of its group, as of the last reallocation
    columns: PartColumns
    alone_ns: float = 0.0  # of the whole exchange
    parts: "list[HostPart]" = field(default_factory=list)
    entered: dict[int, ArrayFlow] = field(default_factory=dict)  # its flows that the arbiter counts
    group: Any = None  # the settlement's, in which it was last
    _claimed: Claimed | None = None  # those; None: they are others by now
    _known: dict[tuple[int, ...], Claimed] = field(default_factory=dict)

    @property
    def rtt_ns(self) -> int:
        return 2 * self.delay_ns

    def enter(self, flow: ArrayFlow) -> None:
        self.entered[flow.number] = flow
        self._claimed = None

    def withdraw(self, flow: ArrayFlow) -> None:
        del self.entered[flow.number]
        self._claimed = None

    def move(self, delay_ns: int) -> None:
        """Its arbiter is another."""
        self.delay_ns = delay_ns
        for part in self.parts:
            self.columns.delay_ns[part.row] = delay_ns

    @property
    def claimed(self) -> Claimed:
        if self._claimed is None:
            numbers = tuple(sorted(self.entered))
            known = self._known.get(numbers)
            if known is None:
                if len(self._known) >= MOST_COUNTED:
                    self._known.clear()
                known = self._known[numbers] = Claimed.of([self.entered[number] for number in numbers])
            self._claimed = known
        return self._claimed

    def parts_with_claims(self) -> "Iterator[tuple[HostPart, list[ArrayFlow]]]":
        """The flows that the arbiter counts, by host part."""
        for part in self.parts:
            if claimed := [flow for flow in part.flows if flow.entered]:
                yield part, claimed

    def bid(self) -> Bid:
        """Its most urgent flow's."""
        if len(self.entered) == 1:
            return next(iter(self.entered.values())).bid
        return most_urgent([flow.bid for flow in self.entered.values()])


@dataclass(slots=True, eq=False)
class HostPart:
    host: str
    tor: str
    contender: ContenderState
    columns: PartColumns
    row: int
    progress: ProgressRow
    flows: list[ArrayFlow] = field(default_factory=list)  # those that the host sends
    size_bytes: float = 0.0
    told: bool = False  # a switch has said how long the exchange takes alone

    @property
    def rtt_ns(self) -> int:
        """As far as the host knows."""
        return self.contender.rtt_ns if self.told else 0

    def tell(self) -> None:
        """The host has a grant."""
        self.told = True
        self.progress.tell_alone(self.contender.alone_ns)

    def bid(
        self, flows: Iterable[ArrayFlow], sent_bytes: float, left_bytes: float, policy: Policy, now_ns: int
    ) -> bool:
        """What the host said of these flows then; whether that is news."""
        self.credit(sent_bytes, now_ns)
        left, news = left_bytes / self.size_bytes, False
        done = self.columns.cells.counted_bytes[self.row] / self.size_bytes
        for flow in flows:
            bid = policy.bid(JobState(self.progress, left, flow.ready_ns, sent_iterations=done))
            news |= bid != flow.bid
            flow.columns.put_bid(flow.number, bid)
        return news

    def credit(self, sent_bytes: float, now_ns: int) -> None:
        counted = self.columns.cells.counted_bytes
        counted_bytes = counted[self.row]
        if sent_bytes >= counted_bytes:  # else these are older counters than those already counted
            # Where bytes moved it does not matter whether some flow stalled.
            stalled = sent_bytes == counted_bytes and all_stalled([flow.phase for flow in self.flows])
            self.progress.credit(now_ns, sent_bytes - counted_bytes, self.size_bytes, stalled=stalled)
            counted[self.row] = sent_bytes

    def sums(self, sent: FloatCells, goal: FloatCells) -> tuple[float, float]:
        """What its flows have sent, and what they have left."""
        total = left = 0.0
        for flow in self.flows:
            number = flow.number
            done = sent[number]
            total += done
            if (more := goal[number] - done) > 0.0:
                left += more
        return total, left


class Claims:
    def __init__(self, network: ArrayNetwork, policy: Policy, latency_ns: int) -> None:
        self._network, self._policy, self._latency_ns = network, policy, latency_ns
        self.flows: dict[int, ArrayFlow] = {}  # by row
        self.parts_of_job: dict[int, dict[str, HostPart]] = {}  # by host
        self.columns = FlowColumns(network.beyond)
        self.part_columns = PartColumns()
        self._tors = {tor: number for number, tor in enumerate(dict.fromkeys(network.topology.switch_of.values()))}
        self.tors = tuple(self._tors)  # by number
        self._keeper = keepers(network.topology)
        self._hosts = {host: number for number, host in enumerate(network.topology.hosts)}
        self.capacity_bps = {name: link.capacity_bps for name, link in network.topology.links.items()}

    def join(self, job: NetworkJob, now_ns: int) -> None:
        network, policy = self._network, self._policy
        by_host: dict[str, list[int]] = {}
        for number in job.numbers.tolist():
            flow = network.flow(number)
            if not flow.local:
                by_host.setdefault(flow.source, []).append(number)
        sent_by = [number for numbers in by_host.values() for number in numbers]
        level = int((network.path[sent_by] < network.beyond).sum(axis=1).max(initial=0)) // 2 if sent_by else 0
        columns = self.part_columns
        whole = ContenderState(job.name, level, level * self._latency_ns, columns)
        parts = self.parts_of_job[job.index] = {}
        for host, numbers in by_host.items():
            contender = ContenderState(f"{job.name}@{host}", 0, 0, columns) if policy.host_only else whole
            tor = network.topology.switch_of[host]
            row = columns.new(self._tors[tor], now_ns)
            progress = ProgressRow(columns, row, now_ns, job.training.spec.weight, job.training.goal or 0)
            part = parts[host] = HostPart(host, tor, contender, columns, row, progress)
            contender.parts.append(part)
            self._add_flows(part, numbers)
        for contender in dict.fromkeys(part.contender for part in parts.values()):
            flows = [flow for part in contender.parts for flow in part.flows]
            contender.alone_ns = self._alone_ns(flows)
            contender.move(contender.delay_ns)

    def _add_flows(self, part: HostPart, numbers: Sequence[int]) -> None:
        network, policy = self._network, self._policy
        for number in numbers:
            path = tuple(network.links[hop] for hop in network.path[number] if hop < network.beyond)
            links = path[:1] if policy.host_only else policy.sees(path)
            flow = self.flows[number] = ArrayFlow(
                id=network.flow(number),
                number=number,
                part=part,
                host=self._hosts[part.host],
                nic_bps=self.capacity_bps[path[0]],
                size_bytes=float(network.size[number]),
                links=links,
                seen=tuple(network.link_index[link] for link in links),
                passes=other_switches(links, self._keeper, part.tor),
                columns=self.columns,
            )
            self.columns.put(network.rows, number, flow.seen, flow.host, part.row, flow.nic_bps)
            flow.iterations = self.columns.cells.begun[number]  # of flows that had the row before, too
            part.flows.append(flow)
            part.size_bytes += flow.size_bytes
        self.part_columns.size_bytes[part.row] = part.size_bytes
        # Until a switch knows better, the host's own NIC is the bottleneck.
        part.progress.alone_comm_ns = self._alone_ns(part.flows, hops=1)

    def _alone_ns(self, flows: Iterable[ArrayFlow], hops: int | None = None) -> float:
        return float(alone_ns(((flow.size_bytes, flow.links[:hops]) for flow in flows), self.capacity_bps))

    def leave(self, job: NetworkJob) -> list[ArrayFlow]:
        """Forget its flows; returns those that the arbiter counted."""
        parts = self.parts_of_job.pop(job.index).values()
        flows = [flow for part in parts for flow in part.flows]
        for flow in flows:
            flow.next_iteration()
            self.columns.part[flow.number] = NONE
            del self.flows[flow.number]
        for part in parts:
            self.part_columns.free(part.row)
        return [flow for flow in flows if flow.entered]

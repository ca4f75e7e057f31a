"""What is claimed: the flows of each job, by host, as the switches would know them; one row per flow.

A host part is a job's part on one host: what a HostAgent keeps the state of and bids for. A contender is what an
arbiter divides links among: all host parts of a job together, or under a host-only policy each host part for itself.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from paceline.flowcore.allocation.arbiters import Contender
from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.host.policy import JobState, Policy
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.model.domain import keepers
from paceline.flowcore.model.units import transfer_ns
from paceline.sim.array.control import NetworkJob
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.kernel.flow_table import Bools, grown, grown_paths


@dataclass(slots=True, eq=False)
class ContenderState:
    name: str
    numbers: Ints  # its flows
    level: int  # tiers of switches its paths climb; 0 under a host-only policy
    delay_ns: int  # from a claim to the arbiter of its group, as of the last reallocation
    parts: "list[HostPart]" = field(default_factory=list)
    flows_on: dict[str, int] | None = None  # by link, of the flows claimed at present; None: to be counted
    claimed: tuple[int, ...] = ()  # those flows, as of when they were counted


@dataclass(slots=True, eq=False)
class HostPart:
    index: int
    host: str
    tor: str
    contender: ContenderState
    numbers: list[int]  # the flows that the host sends
    size_bytes: float
    progress: JobProgress
    ready_ns: int = 0
    counted_bytes: float = 0.0
    claimed: int = 0  # how many of its flows
    bids: dict[int, Bid] = field(default_factory=dict)  # by flow
    bid_ns: int = 0  # when the last of them was made

    def bid(self, numbers: Iterable[int], sent_bytes: float, left_bytes: float, policy: Policy, now_ns: int) -> bool:
        """What the host said of these flows then; whether that is news."""
        self.credit(sent_bytes, now_ns)
        bid = policy.bid(JobState(self.progress, left_bytes / self.size_bytes, self.ready_ns))
        self.bid_ns = now_ns
        news = False
        for number in numbers:
            news |= self.bids.get(number) != bid
            self.bids[number] = bid
        return news

    def credit(self, sent_bytes: float, now_ns: int) -> None:
        if sent_bytes >= self.counted_bytes:  # else these are older counters than those already counted
            self.progress.advance(now_ns, (sent_bytes - self.counted_bytes) / self.size_bytes)
            self.counted_bytes = sent_bytes


class Counters(NamedTuple):
    """Sums over the flows of each host part, by its index."""

    taken_ns: int
    sent: list[float]
    remaining: list[float]


class Held(NamedTuple):
    """The flows with a claim and a share, which are handed over when they are almost through."""

    flows: Ints
    share_bps: Floats
    rtt_ns: Ints


class Claims:
    def __init__(self, network: ArrayNetwork, policy: Policy, latency_ns: int) -> None:
        self.network, self._policy, self._latency_ns = network, policy, latency_ns
        self.parts: dict[int, HostPart] = {}
        self.parts_of_job: dict[int, list[HostPart]] = {}
        self.contending: dict[str, ContenderState] = {}  # those with a claim
        self._passes: dict[int, tuple[str, ...]] = {}
        self._keeper = keepers(network.topology)
        self._free: list[int] = []  # indices of host parts
        self._hosts = {host: number for number, host in enumerate(network.topology.hosts)}
        # Columns beside the network's, one row per flow.
        self.claimed: Bools = np.zeros(0, np.bool_)
        self.share: Floats = np.zeros(0)  # bit/s
        self.decided_bps: Floats = np.zeros(0)  # its share as last decided, be it still on its way; NaN: not yet ...
        self.decided_ceiling_bps: Floats = np.zeros(0)  # ... and its ceiling
        self.released_ns: Ints = np.zeros(0, np.int64)  # handed over then; 0: not
        self.rtt_ns: Ints = np.zeros(0, np.int64)  # to the arbiter of its group and back
        self.stamp: Ints = np.zeros(0, np.int64)  # counts iterations: a grant for the last one is void
        self.part: Ints = np.zeros(0, np.int64)  # the index of its host part; -1: none
        self.host: Ints = np.zeros(0, np.int64)
        self.alone_ns: Floats = np.zeros(0)  # of the job's whole exchange ...
        self.told: Bools = np.zeros(0, np.bool_)  # ... and whether its host has heard that from a switch
        self.seen: Ints = np.zeros((0, 0), np.int64)  # what the policy sees of its path
        self.held: Held | None = None  # None: to be found
        self._grow()

    def _grow(self) -> None:
        """As many rows as the network has."""
        rows, hops = self.network.path.shape
        self.claimed = grown(self.claimed, rows, False)
        self.share = grown(self.share, rows, 0.0)
        self.decided_bps = grown(self.decided_bps, rows, math.nan)
        self.decided_ceiling_bps = grown(self.decided_ceiling_bps, rows, math.nan)
        self.released_ns = grown(self.released_ns, rows, 0)
        self.rtt_ns = grown(self.rtt_ns, rows, 0)
        self.stamp = grown(self.stamp, rows, 0)
        self.part = grown(self.part, rows, -1)
        self.host = grown(self.host, rows, 0)
        self.alone_ns = grown(self.alone_ns, rows, 0.0)
        self.told = grown(self.told, rows, False)
        self.seen = grown_paths(self.seen, rows, hops, self.network.beyond)

    def join(self, job: NetworkJob, now_ns: int) -> None:
        network, policy = self.network, self._policy
        if self.seen.shape != network.path.shape:
            self._grow()
        flows = [(n, network.flow(n)) for n in job.numbers.tolist()]
        by_host: dict[str, list[int]] = {}
        for number, flow in flows:
            if not flow.local:
                by_host.setdefault(flow.source, []).append(number)
                path = tuple(network.links[hop] for hop in network.path[number] if hop < network.beyond)
                seen = path[:1] if policy.host_only else policy.sees(path)
                self.seen[number] = network.beyond
                self.seen[number, : len(seen)] = [network.link_index[link] for link in seen]
                self.host[number] = self._hosts[flow.source]
                self._passes[number] = self._other_switches(seen, flow.source)
        numbers = np.array([n for n, flow in flows if not flow.local], np.int64)
        self.claimed[numbers] = False
        self.grant(numbers, 0.0)
        self.release(numbers, 0)
        level = int((network.path[numbers] < network.beyond).sum(axis=1).max(initial=0)) // 2
        whole = ContenderState(job.name, numbers, level, level * self._latency_ns)
        self.parts_of_job[job.index] = []
        for host, sent_by in by_host.items():
            contender = whole
            if policy.host_only:
                contender = ContenderState(f"{whole.name}@{host}", np.array(sent_by), 0, 0)
            self._add_part(host, contender, sent_by, job, now_ns)

    def _other_switches(self, path: tuple[str, ...], source: str) -> tuple[str, ...]:
        own = self.network.topology.switch_of[source]
        return tuple(dict.fromkeys(self._keeper[link] for link in path if self._keeper[link] != own))

    def passes(self, numbers: Iterable[int]) -> Iterable[str]:
        """The switches that are told of these flows because they cross their links."""
        return dict.fromkeys(switch for number in numbers for switch in self._passes[number])

    def _add_part(self, host: str, contender: ContenderState, numbers: list[int], job: NetworkJob, now_ns: int) -> None:
        index = self._free.pop() if self._free else len(self.parts)
        size_bytes = float(self.network.size[numbers].sum())
        tor = self.network.topology.switch_of[host]
        part = HostPart(index, host, tor, contender, numbers, size_bytes, JobProgress(now_ns), bid_ns=now_ns)
        # Until a switch knows better, the host's own NIC is the bottleneck.
        part.progress.alone_comm_ns = float(self._alone_comm_ns(numbers, hops=1))
        contender.parts.append(part)
        self.parts[index] = part
        self.parts_of_job[job.index].append(part)
        self.part[numbers] = index
        self.rtt_ns[numbers] = 2 * contender.delay_ns
        self.alone_ns[numbers] = self._alone_comm_ns(contender.numbers)
        self.told[numbers] = False

    def tell(self, numbers: Ints) -> None:
        """Their hosts have a grant."""
        for number in numbers[~self.told[numbers]].tolist():
            part = self.part_of(number)
            part.progress.alone_comm_ns = float(self.alone_ns[number])
            self.told[part.numbers] = True

    def _alone_comm_ns(self, numbers: Sequence[int] | Ints, hops: int | None = None) -> int:
        """How long these take with no other flow on the links that are seen, or on the first of them."""
        paths, capacity_bps = self.seen[numbers, :hops], self.network.capacity_bps
        sizes = np.repeat(self.network.size[numbers], paths.shape[1])
        volume = np.bincount(paths.ravel(), sizes, len(capacity_bps))[:-1]
        busiest = int(np.argmax(volume / capacity_bps[:-1]))
        return transfer_ns(float(volume[busiest]), float(capacity_bps[busiest]))

    def leave(self, job: NetworkJob) -> None:
        for part in self.parts_of_job.pop(job.index):
            self.withdraw([n for n in part.numbers if self.claimed[n]])
            self.part[part.numbers] = -1
            self.stamp[part.numbers] += 1
            self.grant(part.numbers, 0.0)  # the rows may be a local flow's next
            self.release(part.numbers, 0)
            del self.parts[part.index]
            self._free.append(part.index)

    def part_of(self, number: int) -> HostPart:
        return self.parts[int(self.part[number])]

    def enter(self, numbers: list[int]) -> None:
        for number in numbers:
            part = self.part_of(number)
            part.claimed += not self.claimed[number]
            part.contender.flows_on = None
            self.contending[part.contender.name] = part.contender
        self.claimed[numbers] = True
        self.decided_bps[numbers] = math.nan
        self.held = None

    def withdraw(self, numbers: list[int]) -> None:
        for number in numbers:
            part = self.part_of(number)
            part.claimed -= 1
            part.contender.flows_on = None
            if not any(other.claimed for other in part.contender.parts):
                self.contending.pop(part.contender.name, None)
        self.claimed[numbers] = False
        self.held = None

    def grant(self, numbers: Sequence[int] | Ints | int, share_bps: Floats | float) -> None:
        self.share[numbers] = share_bps
        self.held = None

    def release(self, numbers: Sequence[int] | Ints | int, now_ns: int) -> None:
        """Handed over now; 0: not."""
        self.released_ns[numbers] = now_ns
        self.held = None

    def may_be_handed_over(self) -> "Held":
        """On a host by itself nothing has to be handed over ahead of time."""
        if self.held is None:
            held = self.claimed & (self.share > 0.0) & (self.released_ns == 0) & (self.rtt_ns > 0)
            flows = np.flatnonzero(held)
            self.held = Held(flows, self.share[flows], self.rtt_ns[flows])
        return self.held

    def count(self, state: ContenderState) -> None:
        """What it claims now."""
        state.flows_on = {}
        state.claimed = tuple(state.numbers[self.claimed[state.numbers]].tolist())
        links = self.network.links
        for path in self.seen[list(state.claimed)].tolist():
            for hop in path:
                if hop < len(links):
                    state.flows_on[links[hop]] = state.flows_on.get(links[hop], 0) + 1

    def contender(self, state: ContenderState) -> Contender:
        """As an arbiter sees it."""
        if state.flows_on is None:
            self.count(state)
        assert state.flows_on is not None
        # Hosts of a job agree but for what each noticed last: the most urgent of them speaks for the job.
        bids = (bid for part in state.parts for number, bid in part.bids.items() if self.claimed[number])
        return Contender(state.name, max(bids), state.flows_on)

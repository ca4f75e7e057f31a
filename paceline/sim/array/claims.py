"""Who claims what: the flows of each job, by host, as the switches would know them; one entry per flow.

A unit is a job's part on one host: what a HostAgent keeps books of and bids for. A team is what an arbiter sees as
one contender: all units of a job, or under a host-only policy each unit for itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from paceline.flowcore.allocation.arbiters import Contender
from paceline.flowcore.allocation.borrowing import Ints
from paceline.flowcore.host.policy import JobState, Policy
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.model.domain import keepers
from paceline.flowcore.model.units import transfer_ns
from paceline.sim.array.control import Member
from paceline.sim.array.network import ArrayNetwork


@dataclass(slots=True, eq=False)
class Team:
    name: str
    numbers: Ints
    level: int  # tiers of switches its paths climb; 0 under a host-only policy
    delay_ns: int  # from a claim to the arbiter that settles its group, as of its last settlement
    units: "list[Unit]" = field(default_factory=list)
    flows_on: dict[str, int] | None = None  # of the flows claimed at present; None: to be counted


@dataclass(slots=True, eq=False)
class Unit:
    index: int
    host: str
    tor: str
    team: Team
    numbers: list[int]
    size_bytes: float
    progress: JobProgress
    ready_ns: int = 0
    counted_bytes: float = 0.0
    claimed: int = 0  # how many of its flows
    bids: dict[int, Bid] = field(default_factory=dict)  # by flow
    bid_ns: int = 0  # when the last of them was made

    def bid(self, numbers: Iterable[int], sent_bytes: float, left_bytes: float, policy: Policy, now_ns: int) -> None:
        """What the host said of these flows then."""
        self.credit(sent_bytes, now_ns)
        bid = policy.bid(JobState(self.progress, left_bytes / self.size_bytes, self.ready_ns))
        self.bids.update(dict.fromkeys(numbers, bid))
        self.bid_ns = now_ns

    def credit(self, sent_bytes: float, now_ns: int) -> None:
        if sent_bytes >= self.counted_bytes:  # else these are older counters than those already counted
            self.progress.advance(now_ns, (sent_bytes - self.counted_bytes) / self.size_bytes)
            self.counted_bytes = sent_bytes


class Counters(NamedTuple):
    """Sums over the flows of each unit, by its index."""

    taken_ns: int
    sent: list[float]
    remaining: list[float]


class Claims:
    def __init__(self, network: ArrayNetwork, policy: Policy, latency_ns: int) -> None:
        self.network, self._policy, self._latency_ns = network, policy, latency_ns
        self.units: dict[int, Unit] = {}
        self.of_member: dict[int, list[Unit]] = {}
        self.teams: dict[str, Team] = {}  # those with a claim
        self._passes: dict[int, tuple[str, ...]] = {}
        self._keeper = keepers(network.topology)
        self._free: list[int] = []
        self._hosts = {host: number for number, host in enumerate(network.topology.hosts)}
        self._resize()

    def _resize(self) -> None:
        """Columns beside the network's."""
        flows, beyond = len(self.network.size), len(self.network.links)
        for name, fill, kind in (
            ("claimed", False, bool),
            ("share", 0.0, float),
            ("released_ns", 0, np.int64),
            ("rtt_ns", 0, np.int64),
            ("stamp", 0, np.int64),  # counts iterations: a grant for the last one is void
            ("unit", -1, np.int64),
            ("host", 0, np.int64),
            ("alone_ns", 0.0, float),  # of the job's whole exchange ...
            ("told", False, bool),  # ... and whether its host has heard that from a switch
        ):
            fresh = np.full(flows, fill, kind)
            old = getattr(self, name, fresh[:0])
            fresh[: len(old)] = old
            setattr(self, name, fresh)
        seen = np.full((flows, self.network.path.shape[1]), beyond)
        old = getattr(self, "seen", seen[:0])
        seen[: len(old), : old.shape[1]] = old
        self.seen: Ints = seen  # what the policy sees of each path

    def join(self, member: Member, now_ns: int) -> None:
        network, policy = self.network, self._policy
        if self.seen.shape != network.path.shape:
            self._resize()
        flows = [(n, network.flow(n)) for n in member.numbers.tolist()]
        by_host: dict[str, list[int]] = {}
        for number, flow in flows:
            if not flow.local:
                by_host.setdefault(flow.source, []).append(number)
                path = tuple(network.links[hop] for hop in network.path[number] if hop < len(network.links))
                seen = path[:1] if policy.host_only else policy.sees(path)
                self.seen[number] = len(network.links)
                self.seen[number, : len(seen)] = [network.link_index[link] for link in seen]
                self.host[number] = self._hosts[flow.source]
                self._passes[number] = self._others_on(seen, flow.source)
        numbers = np.array([n for n, flow in flows if not flow.local], int)
        self.claimed[numbers] = False
        self.share[numbers] = self.released_ns[numbers] = 0
        level = int((network.path[numbers] < len(network.links)).sum(axis=1).max(initial=0)) // 2
        whole = Team(member.job.spec.name, numbers, level, level * self._latency_ns)
        self.of_member[member.index] = []
        for host, sent_by in by_host.items():
            team = Team(f"{whole.name}@{host}", np.array(sent_by), 0, 0) if policy.host_only else whole
            self._add_unit(host, team, sent_by, member, now_ns)

    def _others_on(self, path: tuple[str, ...], source: str) -> tuple[str, ...]:
        own = self.network.topology.switch_of[source]
        return tuple(dict.fromkeys(self._keeper[link] for link in path if self._keeper[link] != own))

    def passes(self, numbers: Iterable[int]) -> Iterable[str]:
        """The switches that are told of these flows because they cross their links."""
        return dict.fromkeys(switch for number in numbers for switch in self._passes[number])

    def _add_unit(self, host: str, team: Team, numbers: list[int], member: Member, now_ns: int) -> None:
        index = self._free.pop() if self._free else len(self.units)
        size_bytes = float(self.network.size[numbers].sum())
        tor = self.network.topology.switch_of[host]
        unit = Unit(index, host, tor, team, numbers, size_bytes, JobProgress(now_ns), bid_ns=now_ns)
        # Until a switch knows better, the host's own NIC is the bottleneck.
        unit.progress.alone_comm_ns = float(self._alone_comm_ns(numbers, hops=1))
        team.units.append(unit)
        self.units[index] = unit
        self.of_member[member.index].append(unit)
        self.unit[numbers] = index
        self.rtt_ns[numbers] = 2 * team.delay_ns
        self.alone_ns[numbers] = self._alone_comm_ns(team.numbers)
        self.told[numbers] = False

    def tell(self, numbers: Ints) -> None:
        """Their hosts have a grant."""
        for number in numbers[~self.told[numbers]].tolist():
            unit = self.unit_of(number)
            unit.progress.alone_comm_ns = float(self.alone_ns[number])
            self.told[unit.numbers] = True

    def _alone_comm_ns(self, numbers: Sequence[int] | Ints, hops: int | None = None) -> int:
        """How long these take with nobody else on the links that are seen, or on the first of them."""
        paths, capacity_bps = self.seen[numbers, :hops], self.network.capacity_bps
        sizes = np.repeat(self.network.size[numbers], paths.shape[1])
        volume = np.bincount(paths.ravel(), sizes, len(capacity_bps))[:-1]
        busiest = int(np.argmax(volume / capacity_bps[:-1]))
        return transfer_ns(float(volume[busiest]), float(capacity_bps[busiest]))

    def leave(self, member: Member) -> None:
        for unit in self.of_member.pop(member.index):
            self.withdraw([n for n in unit.numbers if self.claimed[n]])
            self.unit[unit.numbers] = -1
            self.stamp[unit.numbers] += 1
            self.share[unit.numbers] = self.released_ns[unit.numbers] = 0  # the numbers may be a local flow's next
            del self.units[unit.index]
            self._free.append(unit.index)

    def unit_of(self, number: int) -> Unit:
        return self.units[int(self.unit[number])]

    def enter(self, numbers: list[int]) -> None:
        for number in numbers:
            unit = self.unit_of(number)
            unit.claimed += not self.claimed[number]
            unit.team.flows_on = None
            self.teams[unit.team.name] = unit.team
        self.claimed[numbers] = True

    def withdraw(self, numbers: list[int]) -> None:
        for number in numbers:
            unit = self.unit_of(number)
            unit.claimed -= 1
            unit.team.flows_on = None
            if not any(other.claimed for other in unit.team.units):
                self.teams.pop(unit.team.name, None)
        self.claimed[numbers] = False

    def contender(self, team: Team) -> Contender:
        if team.flows_on is None:
            team.flows_on = {}
            links = self.network.links
            for path in self.seen[team.numbers[self.claimed[team.numbers]]].tolist():
                for hop in path:
                    if hop < len(links):
                        team.flows_on[links[hop]] = team.flows_on.get(links[hop], 0) + 1
        # Hosts of a job agree but for what each noticed last: the most urgent of them speaks for the job.
        bids = (bid for unit in team.units for number, bid in unit.bids.items() if self.claimed[number])
        return Contender(team.name, max(bids), team.flows_on)

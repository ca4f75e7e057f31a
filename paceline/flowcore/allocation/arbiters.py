"""Dividing links among the jobs that want them now. A switch does this for the links it keeps a table of.

An arbiter maps the contenders of one group (jobs that share links, directly or through further jobs) to one rate each:
the rate at which each of the job's flows may send. Every arbiter keeps two laws: no link gets more than its capacity,
and a job is held back only by a full link (work conservation).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.allocation.fairshare import max_min
from paceline.flowcore.allocation.packing import simplex, undominated
from paceline.flowcore.allocation.pricing import in_turn, rates_by_price
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.model.units import UNLIMITED

Key = TypeVar("Key", bound=Hashable)

# Up to this many jobs in a group the packing is exact, in well under a slot.
LARGEST_EXACT = 12

# The urgency of a job whose burst has begun, where a policy holds bursts back; of other jobs it is at most 1.
BEGUN = 2.0

# Up to this many jobs groups are found one job after the other, more of them in sets.
FEW_JOBS = 24


@dataclass(frozen=True, slots=True)
class Contender:
    """A job with bytes waiting."""

    job: str
    bid: Bid
    flows_on: Mapping[str, int]  # link: how many of its waiting flows cross it
    weight: float = 1.0  # which the bid has in it already

    @classmethod
    def of(cls, job: str, bids: Iterable[Bid], paths: Iterable[Iterable[str]], weight: float = 1.0) -> "Contender":
        """A job's waiting flows as one. Its hosts agree but for what each noticed last: its most urgent bid counts."""
        return cls(job, most_urgent(bids), count_links(paths), weight)

    def alone_bps(self, capacity_bps: Mapping[str, float]) -> float:
        """The rate of each of its flows with the links to itself."""
        return min([capacity_bps[link] / flows for link, flows in self.flows_on.items()])  # a list: half the time


def most_urgent(bids: Iterable[Bid]) -> Bid:
    """What a job's flows bid together."""
    return max(bids)


def most_urgent_many(columns: Sequence[Floats], member: Ints) -> list[Bid]:
    """The same of many jobs: `columns` are the flows' bids field by field, `member` says whose each is, job by job."""
    first = np.flatnonzero(np.diff(member, prepend=-1))
    best, most = np.ones(len(member), np.bool_), list[list[float]]()
    for column in columns:
        values = np.where(best, column, -np.inf)
        highest = np.maximum.reduceat(values, first)
        best &= values == highest[member]
        most.append(highest.tolist())
    return list(map(Bid, *most))


def count_links(paths: Iterable[Iterable[Key]]) -> dict[Key, int]:
    """How many of these paths cross each link."""
    flows_on: dict[Key, int] = {}
    for path in paths:
        for link in path:
            flows_on[link] = flows_on.get(link, 0) + 1
    return flows_on


Arbiter = Callable[[Sequence[Contender], Mapping[str, float]], list[float]]


def strict_priority(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """Highest bid first, each takes what those before it left; ties by job name."""
    order = sorted(range(len(contenders)), key=lambda index: (-contenders[index].bid.urgency, contenders[index].job))
    return in_turn([contender.flows_on.items() for contender in contenders], order, dict(capacity_bps))


def max_min_shares(
    contenders: Sequence[Contender], capacity_bps: Mapping[str, float], *, by_weight: bool = False
) -> list[float]:
    """Every flow as much as every other (or by its job's weight), as far as its job's links allow (max-min)."""
    links = {link: index for index, link in enumerate(capacity_bps)}
    paths = [[links[link] for link, flows in c.flows_on.items() for _ in range(flows)] for c in contenders]
    weights = [contender.weight for contender in contenders] if by_weight else None
    return max_min(paths, [UNLIMITED] * len(contenders), list(capacity_bps.values()), weights)


def max_weight_shares(
    contenders: Sequence[Contender],
    capacity_bps: Mapping[str, float],
    weights: Callable[[Sequence[Bid]], list[float]],
) -> list[float]:
    """The max-weight packing; `weights` values the bids of the group."""
    packing = Packing([contender.flows_on for contender in contenders], capacity_bps)
    return packing.rates(weights([contender.bid for contender in contenders]))


class Packing:
    """The max-weight packing of a group of jobs; what does not depend on their bids is worked out once."""

    def __init__(self, flows_on: Sequence[Mapping[str, int]], capacity_bps: Mapping[str, float]) -> None:
        self._flows_on, self._capacity_bps = flows_on, capacity_bps
        self._alone: list[float] = []
        self._rows: list[list[float]] = []
        if len(flows_on) > LARGEST_EXACT:
            return
        self._alone = [min([capacity_bps[link] / flows for link, flows in of.items()]) for of in flows_on]
        if len(flows_on) > 1:
            links = dict.fromkeys(link for of in flows_on for link in of)
            uses = list(zip(flows_on, self._alone, strict=True))
            self._rows = undominated(
                [[of.get(link, 0) * bps / capacity_bps[link] for of, bps in uses] for link in links]
            )

    def rates(self, weights: Sequence[float]) -> list[float]:
        """Of each job's flows."""
        if len(weights) > LARGEST_EXACT:
            return self._by_price(weights)
        if len(weights) <= 1:
            return self._alone.copy()
        return [share * bps for share, bps in zip(simplex(weights, self._rows), self._alone, strict=True)]

    def _by_price(self, weights: Sequence[float]) -> list[float]:
        links: dict[str, int] = {}
        link = np.array([links.setdefault(name, len(links)) for of in self._flows_on for name in of])
        flows = np.array([count for of in self._flows_on for count in of.values()], np.float64)
        job = np.repeat(np.arange(len(weights)), [len(of) for of in self._flows_on])
        links_bps = np.array([self._capacity_bps[name] for name in links])
        return rates_by_price(np.array(weights), job, link, flows, links_bps)


def by_group(arbiter: Arbiter, contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """The rates of contenders that may belong to several groups."""
    rates = [0.0] * len(contenders)
    for group in groups(contenders):
        for index, rate in zip(group, arbiter([contenders[index] for index in group], capacity_bps), strict=True):
            rates[index] = rate
    return rates


def groups(contenders: Sequence[Contender]) -> list[list[int]]:
    """Contenders connected through shared links, each group in input order."""
    if len(contenders) <= FEW_JOBS:
        members: dict[int, list[int]] = {}
        for index, first in enumerate(first_of_group([contender.flows_on for contender in contenders])):
            members.setdefault(first, []).append(index)
        return list(members.values())
    links_of = {index: contender.flows_on for index, contender in enumerate(contenders)}
    on_link: dict[str, list[int]] = {}
    for index, links in links_of.items():
        for link in links:
            on_link.setdefault(link, []).append(index)
    return [sorted(group) for group in connected(links_of, on_link)]


def first_of_group(links_of: Sequence[Iterable[Key]]) -> list[int]:
    """Of each of a few jobs, from the links it crosses: the first of its group."""
    label, seen_on = list(range(len(links_of))), dict[Key, int]()
    for job, links in enumerate(links_of):
        for link in links:
            a, b = label[job], label[seen_on.setdefault(link, job)]
            if a != b:
                low, high = (a, b) if a < b else (b, a)
                label = [low if one == high else one for one in label]
    return label


def connected(links_of: Mapping[Key, Iterable[str]], on_link: Mapping[str, Iterable[Key]]) -> Iterator[set[Key]]:
    """The groups of those that share links with each other, directly or through others; by the first of each.

    Sets at a time: a crowd of hundreds is one group, found in two or three rounds.
    """
    left = dict.fromkeys(links_of)
    while left:
        fresh = {next(iter(left))}
        group, seen = set(fresh), set[str]()
        while fresh:
            links = set[str]().union(*[links_of[member] for member in fresh]) - seen
            seen |= links
            fresh = set[Key]().union(*[on_link[link] for link in links]) - group
            group |= fresh
        for member in group:
            left.pop(member, None)
        yield group

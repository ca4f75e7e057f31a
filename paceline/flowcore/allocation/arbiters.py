"""Dividing links among the jobs that want them now. A switch does this for the links it keeps a table of.

An arbiter maps the contenders of one group (jobs that share links, directly or through further jobs) to one rate each:
the rate at which each of the job's flows may send. Every arbiter keeps two laws: no link gets more than its capacity,
and a job is held back only by a full link (work conservation).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.flowcore.allocation.fairshare import max_min
from paceline.flowcore.allocation.packing import max_weight
from paceline.flowcore.allocation.pricing import price_order
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.model.units import UNLIMITED

# Up to this many jobs in a group the packing is exact, in well under a slot.
LARGEST_EXACT = 12


@dataclass(frozen=True, slots=True)
class Contender:
    """A job with bytes waiting."""

    job: str
    bid: Bid
    flows_on: Mapping[str, int]  # link: how many of its waiting flows cross it

    @classmethod
    def of(cls, job: str, bids: Iterable[Bid], paths: Iterable[Iterable[str]]) -> "Contender":
        """A job's waiting flows as one. Its hosts agree but for what each noticed last: its most urgent bid counts."""
        return cls(job, max(bids), count_links(paths))

    def alone_bps(self, capacity_bps: Mapping[str, float]) -> float:
        """The rate of each of its flows with the links to itself."""
        return min([capacity_bps[link] / flows for link, flows in self.flows_on.items()])  # a list: half the time


def count_links(paths: Iterable[Iterable[str]]) -> dict[str, int]:
    """How many of these paths cross each link."""
    flows_on: dict[str, int] = {}
    for path in paths:
        for link in path:
            flows_on[link] = flows_on.get(link, 0) + 1
    return flows_on


Arbiter = Callable[[Sequence[Contender], Mapping[str, float]], list[float]]


def strict_priority(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """Highest bid first, each takes what those before it left; ties by job name."""
    order = sorted(range(len(contenders)), key=lambda index: (-contenders[index].bid.urgency, contenders[index].job))
    return _in_turn(contenders, order, capacity_bps)


def _in_turn(contenders: Sequence[Contender], order: Iterable[int], capacity_bps: Mapping[str, float]) -> list[float]:
    left = dict(capacity_bps)
    rates = [0.0] * len(contenders)
    for index in order:
        contender = contenders[index]
        rate = max(0.0, min([left[link] / flows for link, flows in contender.flows_on.items()]))
        for link, flows in contender.flows_on.items():
            left[link] -= flows * rate
        rates[index] = rate
    return rates


def max_min_shares(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """Every flow as much as every other, as far as its job's links allow (max-min)."""
    links = {link: index for index, link in enumerate(capacity_bps)}
    paths = [[links[link] for link, flows in c.flows_on.items() for _ in range(flows)] for c in contenders]
    return max_min(paths, [UNLIMITED] * len(contenders), list(capacity_bps.values()))


def max_weight_shares(
    contenders: Sequence[Contender],
    capacity_bps: Mapping[str, float],
    weights: Callable[[Sequence[Bid]], list[float]],
) -> list[float]:
    """The max-weight packing; `weights` values the bids of the group."""
    if not contenders:
        return []
    alone = [contender.alone_bps(capacity_bps) for contender in contenders]
    if len(contenders) == 1:
        return alone
    if len(contenders) > LARGEST_EXACT:
        return _by_price(contenders, alone, capacity_bps, weights([contender.bid for contender in contenders]))
    links = dict.fromkeys(link for contender in contenders for link in contender.flows_on)
    rows = [
        [
            contender.flows_on.get(link, 0) * rate / capacity_bps[link]
            for contender, rate in zip(contenders, alone, strict=True)
        ]
        for link in links
    ]
    shares = max_weight(weights([contender.bid for contender in contenders]), rows)
    return [share * rate for share, rate in zip(shares, alone, strict=True)]


def _by_price(
    members: Sequence[Contender], alone: Sequence[float], capacity_bps: Mapping[str, float], weights: list[float]
) -> list[float]:
    links: dict[str, int] = {}
    link = np.array([links.setdefault(name, len(links)) for member in members for name in member.flows_on])
    flows = np.array([count for member in members for count in member.flows_on.values()])
    job = np.repeat(np.arange(len(members)), [len(member.flows_on) for member in members])
    use = flows * np.array(alone)[job] / np.array([capacity_bps[name] for name in links])[link]
    order = price_order(np.array(weights), job, link, use)
    return _in_turn(members, order.tolist(), capacity_bps)


def by_group(arbiter: Arbiter, contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """The rates of contenders that may belong to several groups."""
    rates = [0.0] * len(contenders)
    for group in groups(contenders):
        for index, rate in zip(group, arbiter([contenders[index] for index in group], capacity_bps), strict=True):
            rates[index] = rate
    return rates


def groups(contenders: Sequence[Contender]) -> list[list[int]]:
    """Contenders connected through shared links, each group in input order."""
    parent = list(range(len(contenders)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    seen_on: dict[str, int] = {}  # a contender that crosses the link, nearly always the first of its group
    for index, contender in enumerate(contenders):
        mine = index
        for link in contender.flows_on:
            other = seen_on.get(link, mine)
            if other != mine and (other := root(other)) != mine:
                parent[max(mine, other)] = min(mine, other)
                mine = min(mine, other)
            seen_on[link] = mine
    groups: dict[int, list[int]] = {}
    for index in range(len(contenders)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())

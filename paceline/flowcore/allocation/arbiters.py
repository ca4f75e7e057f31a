"""Dividing links among the jobs that want them now. A switch does this for the links it keeps a table of.

An arbiter maps contenders to one rate per contender: the rate at which each of the job's flows may send. Every
arbiter keeps two laws: no link gets more than its capacity, and a job is held back only by a full link (work
conservation).
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

    def alone_bps(self, capacity_bps: Mapping[str, float]) -> float:
        """The rate of each of its flows with nobody else."""
        return min(capacity_bps[link] / flows for link, flows in self.flows_on.items())


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
        rate = max(0.0, min(left[link] / flows for link, flows in contender.flows_on.items()))
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
    """The max-weight packing, one group of jobs that share links at a time; `weights` values a group's bids."""
    rates = [0.0] * len(contenders)
    for group in groups(contenders):
        members = [contenders[index] for index in group]
        alone = [member.alone_bps(capacity_bps) for member in members]
        if len(group) > LARGEST_EXACT:
            crowd_rates = _by_price(members, alone, capacity_bps, weights([member.bid for member in members]))
            for index, rate in zip(group, crowd_rates, strict=True):
                rates[index] = rate
            continue
        links = dict.fromkeys(link for member in members for link in member.flows_on)
        rows = [
            [
                member.flows_on.get(link, 0) * rate / capacity_bps[link]
                for member, rate in zip(members, alone, strict=True)
            ]
            for link in links
        ]
        shares = max_weight(weights([member.bid for member in members]), rows) if len(group) > 1 else [1.0]
        for index, share, rate in zip(group, shares, alone, strict=True):
            rates[index] = share * rate
    return rates


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


def groups(contenders: Sequence[Contender]) -> list[list[int]]:
    """Contenders connected through shared links, each group in input order."""
    parent = list(range(len(contenders)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    seen_on: dict[str, int] = {}  # somebody who crosses the link, nearly always the first of its group
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

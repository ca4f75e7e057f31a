"""Dividing links among the jobs that want them now. A switch does this for the links it keeps a table of.

An arbiter maps contenders to one rate per contender: the rate at which each of the job's flows may send. Every
arbiter keeps two laws: no link gets more than its capacity, and a job is held back only by a full link (work
conservation).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flowcore.fairshare import max_min
from flowcore.messages import Bid
from flowcore.packing import max_weight
from flowcore.units import UNLIMITED


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


def in_order(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """Highest bid first, each takes what those before it left; ties by job name."""
    left = dict(capacity_bps)
    rates = [0.0] * len(contenders)
    order = sorted(range(len(contenders)), key=lambda index: (-contenders[index].bid.urgency, contenders[index].job))
    for index in order:
        contender = contenders[index]
        rate = max(0.0, min(left[link] / flows for link, flows in contender.flows_on.items()))
        for link, flows in contender.flows_on.items():
            left[link] -= flows * rate
        rates[index] = rate
    return rates


def equally(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """Every flow as much as every other, as far as its job's links allow (max-min)."""
    links = {link: index for index, link in enumerate(capacity_bps)}
    paths = [[links[link] for link, flows in c.flows_on.items() for _ in range(flows)] for c in contenders]
    return max_min(paths, [UNLIMITED] * len(contenders), list(capacity_bps.values()))


def by_weight(
    contenders: Sequence[Contender],
    capacity_bps: Mapping[str, float],
    weights: Callable[[Sequence[Bid]], list[float]],
) -> list[float]:
    """The max-weight packing, one group of jobs that share links at a time; `weights` values a group's bids."""
    rates = [0.0] * len(contenders)
    for group in groups(contenders):
        members = [contenders[index] for index in group]
        alone = [member.alone_bps(capacity_bps) for member in members]
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


def groups(contenders: Sequence[Contender]) -> list[list[int]]:
    """Contenders connected through shared links, each group in input order."""
    parent = list(range(len(contenders)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    first_on: dict[str, int] = {}
    for index, contender in enumerate(contenders):
        for link in contender.flows_on:
            one, other = root(first_on.setdefault(link, index)), root(index)
            parent[max(one, other)] = min(one, other)
    groups: dict[int, list[int]] = {}
    for index in range(len(contenders)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())

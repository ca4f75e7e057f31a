"""Dividing links among the jobs that want them now. A switch does this for the links it keeps a table of.

An arbiter maps contenders to one rate per contender: the rate at which each of the job's flows may send. Every
arbiter keeps two laws: no link gets more than its capacity, and a job is held back only by a full link or its own
limit (work conservation).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flowcore.packing import max_weight


@dataclass(frozen=True, slots=True)
class Contender:
    """A job with bytes waiting, as one switch sees it."""

    job: str
    bid: float
    flows_on: Mapping[str, int]  # link: how many of its waiting flows cross it; only links of this switch
    limit_bps: float  # no flow of the job can use more

    def alone_bps(self, capacity_bps: Mapping[str, float]) -> float:
        """The rate of each of its flows with nobody else."""
        return min(capacity_bps[link] / flows for link, flows in self.flows_on.items())


Arbiter = Callable[[Sequence[Contender], Mapping[str, float]], list[float]]


def in_order(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """Highest bid first, each takes what those before it left; ties by job name."""
    left = dict(capacity_bps)
    rates = [0.0] * len(contenders)
    order = sorted(range(len(contenders)), key=lambda index: (-contenders[index].bid, contenders[index].job))
    for index in order:
        contender = contenders[index]
        rate = min(left[link] / flows for link, flows in contender.flows_on.items())
        rate = max(0.0, min(rate, contender.limit_bps))
        for link, flows in contender.flows_on.items():
            left[link] -= flows * rate
        rates[index] = rate
    return rates


def by_weight(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    """The max-weight packing, one group of jobs that share links at a time."""
    rates = [0.0] * len(contenders)
    for group in _groups(contenders):
        members = [contenders[index] for index in group]
        alone = [member.alone_bps(capacity_bps) for member in members]
        if len(group) == 1:
            rates[group[0]] = min(alone[0], members[0].limit_bps)
            continue
        links = dict.fromkeys(link for member in members for link in member.flows_on)
        rows = [
            [
                member.flows_on.get(link, 0) * rate / capacity_bps[link]
                for member, rate in zip(members, alone, strict=True)
            ]
            for link in links
        ]
        limits = [min(1.0, member.limit_bps / rate) for member, rate in zip(members, alone, strict=True)]
        shares = max_weight([member.bid for member in members], rows, limits)
        for index, share, rate in zip(group, shares, alone, strict=True):
            rates[index] = share * rate
    return rates


def _groups(contenders: Sequence[Contender]) -> list[list[int]]:
    """Contenders connected through shared links, each group in input order."""
    group_of_link: dict[str, list[int]] = {}
    groups: dict[int, list[int]] = {}
    for index, contender in enumerate(contenders):
        merged = [index]
        for link in contender.flows_on:
            group = group_of_link.get(link)
            if group is not None and group is not merged and group[0] in groups:
                del groups[group[0]]
                merged = sorted(group + merged)
                for member in merged:
                    for other in contenders[member].flows_on:
                        group_of_link[other] = merged
        for link in contender.flows_on:
            group_of_link[link] = merged
        groups[merged[0]] = merged
    return list(groups.values())

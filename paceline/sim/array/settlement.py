"""Dividing the links among the jobs that claim them: only the groups in which something changed are settled anew.

A group's shares depend on which flows claim, and on the bids where there is more than one job. So a group is settled
when one of its claims came or went, or when a bid of several was renewed with another value; all other shares stand.
A claim that comes or goes can only change the groups of its job and those of the jobs on its links: only these are
formed anew. Groups come back iteration after iteration, and so do their rates: a group is kept with the ceilings of its
rates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from paceline.flowcore.allocation.arbiters import Arbiter, Contender, groups
from paceline.flowcore.allocation.borrowing import FEW_FLOWS, Floats, ceilings, ceilings_of_few
from paceline.sim.array.claims import NO_BID, ArrayFlow, ContenderState, paths_of

# Groups that are kept, and rates of one group. A crowd never comes back as it was.
MOST_GROUPS = 4096
MOST_RATES = 64

Shares = list[tuple[float, float]]  # of every flow, with its ceiling
Member = tuple[str, tuple[int, ...]]  # a contender's name, and its flows that claim


class Decision(NamedTuple):
    flow: ArrayFlow
    iteration: int  # of the flow, as it counts them
    share_bps: float
    ceiling_bps: float


@dataclass(slots=True, eq=False)
class Group:
    states: Sequence[ContenderState]
    links: Sequence[Mapping[str, int]]  # of each state: how many of its flows cross which
    flows: Sequence[ArrayFlow]
    member: Sequence[int]  # of each flow: which of the states it belongs to
    level: int  # tiers of switches to the one that arbitrates
    shares_of: dict[tuple[float, ...], Shares] = field(default_factory=dict)  # by rates


class Settled(NamedTuple):
    group: Group
    decisions: list[Decision]  # whose share or ceiling is another than before


class Settlement:
    def __init__(self, arbiter: Arbiter, capacity_bps: Mapping[str, float], links_bps: Floats) -> None:
        """Capacities by name, and by number with one for `beyond`."""
        self._arbiter, self._capacity_bps, self._links_bps = arbiter, capacity_bps, links_bps
        self._touched: dict[str, ContenderState] = {}  # claims of theirs came or went
        self._links: dict[str, Mapping[str, int]] = {}  # by contender, when it was last grouped
        self._on_link: dict[str, dict[str, None]] = {}  # names of contenders
        self._group_of: dict[str, Group] = {}
        self._several: dict[int, Group] = {}  # by id: groups in which jobs meet
        self._known: dict[tuple[Member, ...], Group] = {}

    @property
    def several(self) -> bool:
        """Whether jobs meet anywhere."""
        return bool(self._several)

    @property
    def empty(self) -> bool:
        return not self._group_of and not self._touched

    def enter(self, flow: ArrayFlow) -> None:
        flow.entered, flow.decided = True, None
        contender = flow.part.contender
        contender.entered[flow.number] = flow
        self._touched[contender.name] = contender

    def withdraw(self, flow: ArrayFlow) -> None:
        flow.entered = False
        contender = flow.part.contender
        del contender.entered[flow.number]
        self._touched[contender.name] = contender

    def forget(self, names: set[str]) -> None:
        """These contenders leave, and the rows of their flows may be another's next."""
        self._known = {key: group for key, group in self._known.items() if names.isdisjoint(name for name, _ in key)}

    def settle(self, read_bids: Callable[[ContenderState], bool]) -> list[Settled]:
        """`read_bids`: brings the bids of a contender up to date, and says whether one of them is news."""
        fresh = self._regroup() if self._touched else {}
        settled = [self._settle(group) for group in fresh.values() if len(group.states) == 1]
        for number, group in self._several.items():
            news = [read_bids(state) for state in group.states]
            if number in fresh or any(news):
                settled.append(self._settle(group))
        return [entry for entry in settled if entry.decisions]

    # ---- Groups ----

    def _regroup(self) -> dict[int, Group]:
        """Form the groups anew whose claims came or went; returns those."""
        touched, self._touched = self._touched, {}
        affected: dict[str, ContenderState] = {}
        numbers = {name: tuple(sorted(state.entered)) for name, state in touched.items()}
        for name, state in touched.items():
            self._affect(name, affected)
            for link in self._links.pop(name, ()):
                del self._on_link[link][name]
            if numbers[name]:
                self._links[name] = state.flows_on(numbers[name])
                affected[name] = state
            else:
                affected.pop(name, None)
        for name in touched:
            for link in self._links.get(name, ()):
                for other in self._on_link.get(link, ()):
                    if other not in affected:
                        self._affect(other, affected)
        for name in touched:
            for link in self._links.get(name, ()):
                self._on_link.setdefault(link, {})[name] = None
        affected = {name: state for name, state in affected.items() if name in self._links}
        for name in affected:
            self._group_of.pop(name, None)
        return {id(group): self._keep(group) for group in self._formed(affected)}

    def _affect(self, name: str, affected: dict[str, ContenderState]) -> None:
        """All jobs of the contender's group, as it was."""
        group = self._group_of.pop(name, None)
        if group is not None:
            self._several.pop(id(group), None)
            for state in group.states:
                self._group_of.pop(state.name, None)
                affected[state.name] = state

    def _formed(self, states: Mapping[str, ContenderState]) -> Iterable[Group]:
        names = sorted(states)
        for indices in groups([Contender(name, NO_BID, self._links[name]) for name in names]):
            members = [states[names[index]] for index in indices]
            key = tuple((state.name, tuple(sorted(state.entered))) for state in members)
            group = self._known.get(key)
            if group is None:
                if len(self._known) >= MOST_GROUPS:
                    self._known.clear()
                group = self._group(members)
                if len(group.flows) <= FEW_FLOWS:
                    self._known[key] = group
            yield group

    def _keep(self, group: Group) -> Group:
        for state in group.states:
            self._group_of[state.name] = group
        if len(group.states) > 1:
            self._several[id(group)] = group
        return group

    def _group(self, states: Sequence[ContenderState]) -> Group:
        flows = [state.entered[number] for state in states for number in sorted(state.entered)]
        return Group(
            states,
            [self._links[state.name] for state in states],
            flows,
            [place for place, state in enumerate(states) for _ in state.entered],
            max(state.level for state in states),
        )

    # ---- Shares ----

    def _settle(self, group: Group) -> Settled:
        rates = self._rates(group)
        shares = group.shares_of.get(rates)
        if shares is None:
            if len(group.shares_of) >= MOST_RATES or len(group.flows) > FEW_FLOWS:
                group.shares_of.clear()
            shares = group.shares_of[rates] = self._with_ceilings(group, rates)
        decisions = []
        for flow, share in zip(group.flows, shares, strict=True):
            if flow.decided != share:
                flow.decided = share
                decisions.append(Decision(flow, flow.iterations, *share))
        return Settled(group, decisions)

    def _rates(self, group: Group) -> tuple[float, ...]:
        if len(group.states) == 1:  # nothing but a full link holds a job back, whatever the arbiter
            known = next(iter(group.shares_of), None)
            return known or (Contender(group.states[0].name, NO_BID, group.links[0]).alone_bps(self._capacity_bps),)
        members = [
            Contender(state.name, max([flow.bid for flow in state.entered.values()]), links)
            for state, links in zip(group.states, group.links, strict=True)
        ]
        return tuple(self._arbiter(members, self._capacity_bps))

    def _with_ceilings(self, group: Group, rates: Sequence[float]) -> Shares:
        # The job of a flow is told by its place among the states; a host-only contender is one host's part of it.
        flows, member = group.flows, group.member
        hosts, share_bps = [flow.host for flow in flows], [rates[place] for place in member]
        if len(flows) <= FEW_FLOWS:
            paths = [flow.links for flow in flows]
            ceiling_bps, _ = ceilings_of_few(share_bps, paths, hosts, member, self._capacity_bps)
        else:
            links_bps = self._links_bps
            rows = paths_of(flows, len(links_bps) - 1)
            found, _ = ceilings(np.array(share_bps), rows, np.array(hosts), np.array(member), links_bps)
            ceiling_bps = found.tolist()
        return list(zip(share_bps, ceiling_bps, strict=True))

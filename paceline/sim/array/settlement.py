"""Dividing the links among the jobs that claim them: only the groups in which something changed are settled anew.

A group's shares depend on which flows claim, and on the bids where there is more than one job. So a group is settled
when one of its claims came or went, or when a bid of several was renewed with another value; all other shares stand.
A claim that comes or goes can only change the groups of its job and those of the jobs on its links: only these are
formed anew. Groups come back iteration after iteration, and so do their rates: a group is kept with the ceilings of its
rates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from paceline.flowcore.allocation.arbiters import (
    LARGEST_EXACT,
    Arbiter,
    Contender,
    Packing,
    max_weight_shares,
)
from paceline.flowcore.allocation.borrowing import FEW_FLOWS, Floats, Ints, ceilings_of_few
from paceline.flowcore.messages.reports import Bid
from paceline.sim.array.claims import ArrayFlow, Claimed, ContenderState
from paceline.sim.array.columns import NO_BID, UNDECIDED, FlowColumns
from paceline.sim.kernel.crowd import crowd_ceilings, crowd_rates, link_groups

# Groups that are kept, and rates of one group. A crowd never comes back as it was.
MOST_GROUPS = 16_384
MOST_RATES = 64

Shares = list[tuple[float, float]]  # of every flow, with its ceiling


class Decision(NamedTuple):
    flow: ArrayFlow
    iteration: int  # of the flow, as it counts them
    share_bps: float
    ceiling_bps: float


@dataclass(slots=True, eq=False)
class Group:
    states: Sequence[ContenderState]
    links: Sequence[Mapping[str, int]]  # of each state: how many of its flows cross which
    flows: Sequence[ArrayFlow]  # of a crowd: none, but `rows`
    member: Sequence[int]  # of each flow: which of the states it belongs to
    level: int  # tiers of switches to the one that arbitrates
    rows: Ints | None = None  # of the flows, one state's after the other: it is a crowd
    packing: Packing | None = None  # of several jobs, for arbiters that pack
    read_ns: int = -1  # no bid of its jobs is older than the counters taken then
    shares_of: dict[tuple[float, ...], Shares] = field(default_factory=dict)  # by rates


class CrowdDecisions(NamedTuple):
    """Decisions in arrays."""

    rows: Ints  # of the flows
    begun: Ints  # as the flows count iterations
    share_bps: Floats
    ceiling_bps: Floats

    def __len__(self) -> int:
        return len(self.rows)


class Settled(NamedTuple):
    group: Group
    decisions: list[Decision] | CrowdDecisions  # whose share or ceiling is another than before


_name = attrgetter("name")


class Settlement:
    def __init__(
        self, arbiter: Arbiter, capacity_bps: Mapping[str, float], links_bps: Floats, columns: FlowColumns
    ) -> None:
        """Capacities by name, and by number with one for `beyond`; `columns`: of all flows."""
        self._arbiter, self._capacity_bps, self._links_bps = arbiter, capacity_bps, links_bps
        self._columns = columns
        self._weights: Callable[[Sequence[Bid]], list[float]] | None = None
        if isinstance(arbiter, partial) and arbiter.func is max_weight_shares:
            self._weights = arbiter.keywords["weights"]
        self._touched: dict[str, ContenderState] = {}  # claims of theirs came or went
        self._states: dict[str, ContenderState] = {}  # with claims
        self._several: dict[int, Group] = {}  # by id: groups in which jobs meet
        self._known: dict[tuple[Claimed, ...], Group] = {}

    @property
    def several(self) -> bool:
        """Whether jobs meet anywhere."""
        return bool(self._several)

    @property
    def empty(self) -> bool:
        return not self._states and not self._touched

    def enter(self, flow: ArrayFlow) -> None:
        flow.entered = True
        self._columns.cells.share[flow.number] = UNDECIDED
        contender = flow.part.contender
        contender.enter(flow)
        self._touched[contender.name] = contender

    def withdraw(self, flow: ArrayFlow) -> None:
        flow.entered = False
        contender = flow.part.contender
        contender.withdraw(flow)
        self._touched[contender.name] = contender

    def forget(self, names: set[str]) -> None:
        """These contenders leave."""
        self._known = {
            key: group for key, group in self._known.items() if names.isdisjoint(state.name for state in group.states)
        }

    def settle(self, newest_ns: int, read_bids: Callable[[Group], bool]) -> list[Settled]:
        """`read_bids`: brings the bids of a group up to date, and says whether one of them is news; none of them can
        be newer than `newest_ns`."""
        fresh = self._regroup() if self._touched else {}
        settled = [self._settle(group) for group in fresh.values() if len(group.states) == 1]
        for number, group in self._several.items():
            news = group.read_ns < newest_ns and read_bids(group)
            if news or number in fresh:
                settled.append(self._settle(group))
        return [entry for entry in settled if len(entry.decisions)]

    # ---- Groups ----

    def _regroup(self) -> dict[int, Group]:
        """Form the groups anew; returns those whose claims came or went, or that are new."""
        touched, self._touched = self._touched, {}
        for name, state in touched.items():
            if state.entered:
                self._states[name] = state
            elif self._states.pop(name, None) is not None:
                state.group = None
        states = list(self._states.values())
        changed = {place for place, name in enumerate(self._states) if name in touched}
        members: dict[int, list[int]] = {}
        for place, first in enumerate(link_groups([state.claimed.links for state in states], len(self._links_bps))):
            if first in members:
                members[first].append(place)
            else:
                members[first] = [place]
        fresh = dict[int, Group]()
        self._several = {}
        for first, places in members.items():
            group = states[first].group
            # Without the claims that came or went, what is connected is a part of what was: as many are the same ones.
            if group is None or len(group.states) != len(places) or not changed.isdisjoint(places):
                group = self._formed(sorted([states[place] for place in places], key=_name))
                fresh[id(group)] = group
            if len(places) > 1:
                self._several[id(group)] = group
        return fresh

    def _formed(self, states: Sequence[ContenderState]) -> Group:
        key = tuple([state.claimed for state in states])
        group = self._known.get(key)
        if group is None and sum([len(state.entered) for state in states]) > FEW_FLOWS:
            group = self._crowd(states)
        elif group is None:
            if len(self._known) >= MOST_GROUPS:
                self._known.clear()
            group = self._known[key] = self._group(states)
        group.read_ns = -1
        for state in states:
            state.group = group
        return group

    def _crowd(self, states: Sequence[ContenderState]) -> Group:
        claimed = [state.claimed for state in states]
        rows, links = np.concatenate([one.rows for one in claimed]), [one.flows_on for one in claimed]
        return Group(states, links, (), (), max([state.level for state in states]), rows)

    def _group(self, states: Sequence[ContenderState]) -> Group:
        return Group(
            states,
            [state.claimed.flows_on for state in states],
            [state.entered[number] for state in states for number in state.claimed.numbers],
            [place for place, state in enumerate(states) for _ in state.entered],
            max([state.level for state in states]),
        )

    # ---- Shares ----

    def _settle(self, group: Group) -> Settled:
        if group.rows is not None:
            return self._settle_crowd(group, group.rows)
        shares = self._shares(group)
        decisions = []
        cells = self._columns.cells
        share_cells, ceiling_cells = cells.share, cells.ceiling
        for flow, (share_bps, ceiling_bps) in zip(group.flows, shares, strict=True):
            number = flow.number
            if share_cells[number] != share_bps or ceiling_cells[number] != ceiling_bps:
                share_cells[number], ceiling_cells[number] = share_bps, ceiling_bps
                decisions.append(Decision(flow, flow.iterations, share_bps, ceiling_bps))
        return Settled(group, decisions)

    def _shares(self, group: Group) -> Shares:
        if len(group.states) == 1 and group.shares_of:  # whatever it bids
            return next(iter(group.shares_of.values()))
        rates = self._rates(group)
        shares = group.shares_of.get(rates)
        if shares is None:
            if len(group.shares_of) >= MOST_RATES:
                group.shares_of.clear()
            shares = group.shares_of[rates] = self._with_ceilings(group, rates)
        return shares

    def _rates(self, group: Group) -> tuple[float, ...]:
        if len(group.states) == 1:  # nothing but a full link holds a job back, whatever the arbiter
            return (Contender(group.states[0].name, NO_BID, group.links[0]).alone_bps(self._capacity_bps),)
        bids = [state.bid() for state in group.states]
        if self._weights is None:
            entries = zip(group.states, bids, group.links, strict=True)
            return tuple(
                self._arbiter([Contender(state.name, bid, links) for state, bid, links in entries], self._capacity_bps)
            )
        if group.packing is None:
            group.packing = Packing(group.links, self._capacity_bps)
        return tuple(group.packing.rates(self._weights(bids)))

    def _with_ceilings(self, group: Group, rates: Sequence[float]) -> Shares:
        # The job of a flow is told by its place among the states; a host-only contender is one host's part of it.
        flows, member = group.flows, group.member
        hosts, share_bps = [flow.host for flow in flows], [rates[place] for place in member]
        paths = [flow.links for flow in flows]
        ceiling_bps, _ = ceilings_of_few(share_bps, paths, hosts, member, self._capacity_bps)
        return list(zip(share_bps, ceiling_bps, strict=True))

    # ---- Crowds: the same in arrays ----

    def _settle_crowd(self, group: Group, rows: Ints) -> Settled:
        columns, claimed = self._columns, [state.claimed for state in group.states]
        member = np.repeat(np.arange(len(claimed)), [len(one.numbers) for one in claimed])
        if self._weights is not None and len(claimed) > LARGEST_EXACT:
            rates = self._rates_by_price(claimed, self._weights(self._crowd_bids(rows, member)))
        else:
            rates = np.array(self._rates(group))
        share_bps = rates[member]
        ceiling_bps = crowd_ceilings(share_bps, columns.seen[rows], columns.host[rows], member, self._links_bps)
        changed = (columns.share[rows] != share_bps) | (columns.ceiling[rows] != ceiling_bps)
        rows, share_bps, ceiling_bps = rows[changed], share_bps[changed], ceiling_bps[changed]
        columns.share[rows], columns.ceiling[rows] = share_bps, ceiling_bps
        return Settled(group, CrowdDecisions(rows, columns.begun[rows], share_bps, ceiling_bps))

    def _crowd_bids(self, rows: Ints, member: Ints) -> list[Bid]:
        """Of each member: the bid of its most urgent flow (ContenderState.bid)."""
        columns, first = self._columns, np.flatnonzero(np.diff(member, prepend=-1))
        best, most = np.ones(len(rows), np.bool_), list[list[float]]()
        for column in (columns.urgency, columns.compute_ns, columns.remaining_ns):
            values = np.where(best, column[rows], -np.inf)
            highest = np.maximum.reduceat(values, first)
            best &= values == highest[member]
            most.append(highest.tolist())
        return list(map(Bid, *most))

    def _rates_by_price(self, claimed: Sequence[Claimed], weights: Sequence[float]) -> Floats:
        crossed = [one.links for one in claimed]
        first = np.cumsum([0, *map(len, crossed)])
        link, flows = np.concatenate(crossed), np.concatenate([one.counts for one in claimed])
        return crowd_rates(np.array(weights), first, link, flows, self._links_bps)

"""Dividing the links among the jobs that claim them: only the groups in which something changed are settled anew.

A group's shares depend on which flows claim, and on the bids where there is more than one job. So a group is settled
when one of its claims came or went, or when a bid of several was renewed with another value; all other shares stand.
A claim that comes or goes can only change the groups of its job and those of the jobs on its links: only these are
formed anew. All jobs on a link are in one group, so each link knows its group. Groups come back iteration after
iteration, and so do their rates: a group is kept with the ceilings of its rates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from paceline.flowcore.allocation.arbiters import (
    FEW_JOBS,
    LARGEST_EXACT,
    Arbiter,
    Contender,
    first_of_group,
    max_weight_shares,
    most_urgent_many,
)
from paceline.flowcore.allocation.borrowing import FEW_FLOWS, Floats, Ints, ceilings_of_few
from paceline.flowcore.messages.reports import Bid
from paceline.sim.array.claims import ArrayFlow, Claimed, ContenderState, HostPart
from paceline.sim.array.columns import NO_BID, NONE, UNDECIDED, FlowColumns
from paceline.sim.kernel.crowd import crowd_ceilings, crowd_rates, link_groups
from paceline.sim.kernel.flow_table import cells
from paceline.sim.kernel.packing import Rates, packing_of

# Groups that are kept, and rates of one group. A crowd never comes back as it was.
MOST_GROUPS = 16_384
MOST_RATES = 64

Shares = list[tuple[float, float]]  # of every flow, with its ceiling


Decision = tuple[ArrayFlow, int, float, float]  # which iteration of it, as the flow counts; its share and its ceiling


@dataclass(slots=True, eq=False)
class Group:
    states: Sequence[ContenderState]
    links: Sequence[Mapping[str, int]]  # of each state: how many of its flows cross which
    flows: Sequence[ArrayFlow]  # of a crowd: none, but `rows`
    member: Sequence[int]  # of each flow: which of the states it belongs to; of a crowd: none, but `member_of_row`
    parts: Sequence[tuple[HostPart, Sequence[ArrayFlow]]]  # of several jobs: which of its flows each host part claims
    level: int  # tiers of switches to the one that arbitrates
    rows: Ints | None = None  # of the flows, one state's after the other: it is a crowd
    member_of_row: Ints | None = None
    number: int = NONE
    packing: Rates | None = None  # of several jobs, for arbiters that pack
    capacity_bps: Mapping[str, float] | None = None  # of its links, for those that do not
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
        self.peak_ratio = 0.0  # the largest part of a link that the shares of a group took; crowds are not looked at
        self._touched: dict[str, ContenderState] = {}  # claims of theirs came or went
        self._states: dict[str, ContenderState] = {}  # with claims
        self._several: dict[int, Group] = {}  # by number: groups in which jobs meet
        self._numbers = count()
        self._current: dict[int, Group] = {}  # by number
        self._group_on: Ints = np.full(len(links_bps), NONE)  # by link: the number of its group, or of one that was
        self._group_on_cells = cells(self._group_on)
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
        """Form the groups anew whose claims came or went; returns them."""
        touched, self._touched = self._touched, {}
        for name, state in touched.items():
            if state.entered:
                self._states[name] = state
            else:
                self._states.pop(name, None)
        states = self._with_neighbours(touched)
        members: dict[int, list[ContenderState]] = {}
        for state, first in zip(states, self._first_of_group(states), strict=True):
            if first in members:
                members[first].append(state)
            else:
                members[first] = [state]
        fresh = dict[int, Group]()
        for meeting in members.values():
            group = self._formed(sorted(meeting, key=_name) if len(meeting) > 1 else meeting)
            fresh[group.number] = group
            if len(meeting) > 1:
                self._several[group.number] = group
        return fresh

    def _with_neighbours(self, touched: Mapping[str, ContenderState]) -> list[ContenderState]:
        """Those of these that still claim, and all jobs of the groups that they were in or now meet."""
        found = {name: state for name, state in touched.items() if state.entered}
        for state in touched.values():
            met = set() if state.group is None else {state.group.number}
            if state.entered:
                met.update([self._group_on_cells[link] for link in state.claimed.crossed])
            for number in met:
                if (group := self._current.pop(number, None)) is not None:
                    self._several.pop(number, None)
                    found.update([(other.name, other) for other in group.states if other.entered])
            state.group = None
        return list(found.values())

    def _first_of_group(self, states: Sequence[ContenderState]) -> list[int]:
        if len(states) <= FEW_JOBS:
            return first_of_group([state.claimed.crossed for state in states])
        return link_groups([state.claimed.links for state in states], len(self._links_bps))

    def _formed(self, states: Sequence[ContenderState]) -> Group:
        claimed = tuple([state.claimed for state in states])
        if sum([len(state.entered) for state in states]) > FEW_FLOWS:
            group = self._crowd(states, claimed)
        elif (known := self._known.get(claimed)) is not None:
            group = known
        else:
            if len(self._known) >= MOST_GROUPS:
                self._known.clear()
            group = self._known[claimed] = self._group(states)
        number = next(self._numbers)
        group.read_ns, group.number, self._current[number] = -1, number, group
        for state in states:
            state.group = group
        if group.rows is not None:
            self._group_on[np.concatenate([one.links for one in claimed])] = number
        else:
            group_on = self._group_on_cells
            for one in claimed:
                for link in one.crossed:
                    group_on[link] = number
        return group

    def _crowd(self, states: Sequence[ContenderState], claimed: Sequence[Claimed]) -> Group:
        rows = np.concatenate([one.rows for one in claimed])
        member = np.repeat(np.arange(len(claimed)), [len(one.numbers) for one in claimed])
        links = [one.flows_on for one in claimed]
        return Group(states, links, (), (), (), max([state.level for state in states]), rows, member)

    def _group(self, states: Sequence[ContenderState]) -> Group:
        return Group(
            states,
            [state.claimed.flows_on for state in states],
            [state.entered[number] for state in states for number in state.claimed.numbers],
            [place for place, state in enumerate(states) for _ in state.entered],
            [part for state in states for part in state.parts_with_claims()] if len(states) > 1 else (),
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
                decisions.append((flow, flow.iterations, share_bps, ceiling_bps))
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
            if group.capacity_bps is None:
                group.capacity_bps = {link: self._capacity_bps[link] for links in group.links for link in links}
            entries = zip(group.states, bids, group.links, strict=True)
            return tuple(
                self._arbiter([Contender(state.name, bid, links) for state, bid, links in entries], group.capacity_bps)
            )
        if group.packing is None:
            claimed = [state.claimed for state in group.states]
            links, counts = [one.links for one in claimed], [one.counts for one in claimed]
            group.packing = packing_of(group.links, self._capacity_bps, links, counts, self._links_bps)
        return tuple(group.packing.rates(self._weights(bids)))

    def _with_ceilings(self, group: Group, rates: Sequence[float]) -> Shares:
        # The job of a flow is told by its place among the states; a host-only contender is one host's part of it.
        flows, member = group.flows, group.member
        hosts, share_bps = [flow.host for flow in flows], [rates[place] for place in member]
        paths = [flow.links for flow in flows]
        ceiling_bps, taken = ceilings_of_few(share_bps, paths, hosts, member, self._capacity_bps)
        self.peak_ratio = max(self.peak_ratio, *[bps / self._capacity_bps[link] for link, bps in taken.items()])
        return list(zip(share_bps, ceiling_bps, strict=True))

    # ---- Crowds: the same in arrays ----

    def _settle_crowd(self, group: Group, rows: Ints) -> Settled:
        columns, claimed, member = self._columns, [state.claimed for state in group.states], group.member_of_row
        assert member is not None
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
        """Of each member."""
        columns = self._columns.urgency, self._columns.compute_ns, self._columns.remaining_ns
        return most_urgent_many([column[rows] for column in columns], member)

    def _rates_by_price(self, claimed: Sequence[Claimed], weights: Sequence[float]) -> Floats:
        crossed = [one.links for one in claimed]
        first = np.cumsum([0, *map(len, crossed)])
        link, flows = np.concatenate(crossed), np.concatenate([one.counts for one in claimed])
        return crowd_rates(np.array(weights), first, link, flows, self._links_bps)

"""Dividing the links among the jobs that claim them: only the groups in which something changed are settled anew.

A group's shares depend on which flows claim, and on the bids where there is more than one job. So a group is settled
when one of its claims came or went, or when a bid of several was renewed with another value; all other shares stand.
Groups come back iteration after iteration, and so do their rates: a group is kept with the ceilings of its rates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from paceline.flowcore.allocation.arbiters import Arbiter, Contender, groups
from paceline.flowcore.allocation.borrowing import Floats, Ints, ceilings
from paceline.sim.array.claims import Claims, ContenderState

# Groups, and rates of one group, that are kept.
MOST_KEPT = 512

Member = tuple[str, tuple[int, ...]]  # a contender's name, and its flows that claim


@dataclass(slots=True, eq=False)
class Group:
    states: Sequence[ContenderState]
    flows: Ints
    member: Ints  # of each flow: which of the states it belongs to
    paths: Ints
    host: Ints
    job: Ints
    level: int  # tiers of switches to the one that arbitrates
    ceilings_of: dict[tuple[float, ...], tuple[Floats, Floats]] = field(default_factory=dict)  # by rates: with shares


class Settled(NamedTuple):
    """Flows whose share or ceiling is another than before."""

    level: int
    flows: Ints
    share_bps: Floats
    ceiling_bps: Floats


class Settlement:
    def __init__(self, claims: Claims, arbiter: Arbiter, capacity_bps: Mapping[str, float]) -> None:
        self._claims, self._arbiter, self._capacity_bps = claims, arbiter, capacity_bps
        self._known: dict[tuple[Member, ...], Group] = {}
        self._present: dict[int, Group] = {}  # by id: those that were settled last
        self._contenders: dict[str, Contender] = {}
        self.several = False  # whether jobs meet anywhere

    def forget(self, names: set[str]) -> None:
        """These contenders leave, and the rows of their flows may be another's next."""
        self._known = {key: group for key, group in self._known.items() if names.isdisjoint(name for name, _ in key)}

    def settle(self, states: Sequence[ContenderState], renewed: set[str]) -> list[Settled]:
        """`renewed`: contenders whose bid is another than before."""
        claims = self._claims
        touched = {state.name for state in states if state.flows_on is None}
        for state in states:
            if state.flows_on is None or state.name in renewed or state.name not in self._contenders:
                self._contenders[state.name] = claims.contender(state)
        if touched or len(states) != len(self._contenders):
            self._contenders = {state.name: self._contenders[state.name] for state in states}
            fresh = self._grouped(states)
        else:
            fresh = self._present
        settled = []
        for number, group in fresh.items():
            members = group.states
            new = number not in self._present or any(state.name in touched for state in members)
            if new or (len(members) > 1 and any(state.name in renewed for state in members)):
                settled.append(self._settle(group))
        self._present = fresh
        self.several = any(len(group.states) > 1 for group in fresh.values())
        return [entry for entry in settled if len(entry.flows)]

    def _grouped(self, states: Sequence[ContenderState]) -> dict[int, Group]:
        found = {}
        for indices in groups([self._contenders[state.name] for state in states]):
            members = [states[index] for index in indices]
            key = tuple((state.name, state.claimed) for state in members)
            group = self._known.get(key)
            if group is None:
                if len(self._known) >= MOST_KEPT:
                    self._known.clear()
                group = self._known[key] = self._group(members)
            found[id(group)] = group
        return found

    def _group(self, states: Sequence[ContenderState]) -> Group:
        claims = self._claims
        flows = np.array([number for state in states for number in state.claimed])
        member = np.repeat(np.arange(len(states)), [len(state.claimed) for state in states])
        level = max(state.level for state in states)
        return Group(states, flows, member, claims.seen[flows], claims.host[flows], claims.network.job[flows], level)

    def _settle(self, group: Group) -> Settled:
        claims = self._claims
        members = [self._contenders[state.name] for state in group.states]
        # Nothing but a full link holds a job back, whatever the arbiter.
        alone = len(members) == 1
        rates = tuple(
            [members[0].alone_bps(self._capacity_bps)] if alone else self._arbiter(members, self._capacity_bps)
        )
        known = group.ceilings_of.get(rates)
        if known is None:
            if len(group.ceilings_of) >= MOST_KEPT:
                group.ceilings_of.clear()
            share = np.array(rates)[group.member]
            ceiling, _ = ceilings(share, group.paths, group.host, group.job, claims.network.capacity_bps)
            known = group.ceilings_of[rates] = share, ceiling
        share, ceiling = known
        flows = group.flows
        other = (claims.decided_bps[flows] != share) | (claims.decided_ceiling_bps[flows] != ceiling)
        if not other.all():
            flows, share, ceiling = flows[other], share[other], ceiling[other]
        claims.decided_bps[flows], claims.decided_ceiling_bps[flows] = share, ceiling
        return Settled(group.level, flows, share, ceiling)

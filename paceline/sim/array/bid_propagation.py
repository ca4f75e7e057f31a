"""Bid propagation: how far renewed bids have come up the tree of switches, without sending a message.

A host reheard its bids at the start of a slot. A renewed bid is no reason for a switch to reallocate; the switch passes
it on when it reallocates anyway,

    at every half slot,
    when a host below it claims or withdraws,
    when a flow from elsewhere begins or ends to cross its links: that may change its groups (arbitration.py),

and then passes on all it has heard. With d the latency, and heard_S(t) the time up to which the bids renewed below a
ToR are known at the switch S above it:  heard_ToR(t) = t − d, and S reallocating at t makes
heard_parent(t + d) = heard_S(t).

Nothing of this is worked out before a reallocation asks: it ends no step of the engine.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count, pairwise

from paceline.flowcore.model.domain import above
from paceline.flowcore.model.topology import Topology

# What was passed on this many half slots ago has come to the top of any tree.
HALF_SLOTS_TO_THE_TOP = 8


class BidPropagation:
    """A delay of h·d says that a group is arbitrated by the h-th switch above its hosts; 0, by the hosts themselves."""

    def __init__(self, topology: Topology, latency_ns: int, half_slot_ns: int, epoch_ns: int = 0) -> None:
        self._latency_ns, self._half_slot_ns = latency_ns, half_slot_ns
        self._above = {tor: tuple(above(tor, topology)) for tor in dict.fromkeys(topology.switch_of.values())}
        self._parent = dict(pair for switches in self._above.values() for pair in pairwise(switches))
        self._heard_ns: dict[str, dict[str, int]] = {switch: {} for switch in topology.switches}
        self._due: list[tuple[int, int, Callable[[], None]]] = []  # when, sequence, what
        self._sequence = count()
        # Claims and withdrawals that have not been looked at: from which ToR, how high, which other switches, and when.
        self._changes: deque[tuple[str, int, Iterable[str], int]] = deque()
        self._next_half_slot_ns = epoch_ns
        self._caught_up_ns = -1

    def heard_ns(self, tor: str, delay_ns: int, now_ns: int) -> int:
        """Where such a group is arbitrated, the bids renewed below this ToR up to then are known."""
        if delay_ns <= self._latency_ns:
            return now_ns - delay_ns
        self._catch_up(now_ns)
        return self._heard_ns[self._path_up(tor, delay_ns)[-1]].get(tor, 0)

    def _path_up(self, tor: str, delay_ns: int) -> tuple[str, ...]:
        """From the ToR to the switch that arbitrates."""
        return self._above[tor][: delay_ns // self._latency_ns]

    def changed(self, tor: str, delay_ns: int, passes: Iterable[str], now_ns: int) -> None:
        """A host below the ToR claims or withdraws; `passes`: the other switches that are told."""
        if delay_ns:
            changes, forgotten_ns = self._changes, now_ns - HALF_SLOTS_TO_THE_TOP * self._half_slot_ns
            while changes and changes[0][-1] < forgotten_ns:
                changes.popleft()
            changes.append((tor, delay_ns, passes, now_ns))

    def _catch_up(self, now_ns: int) -> None:
        """What happened until now, in order; at the same time messages come first."""
        if now_ns == self._caught_up_ns and not self._changes:
            return
        self._caught_up_ns = now_ns
        while self._changes:
            tor, delay_ns, passes, when_ns = self._changes.popleft()
            self._pass_on_at(when_ns + self._latency_ns, *self._path_up(tor, delay_ns))
            for switch in passes:
                self._pass_on_at(when_ns + 2 * self._latency_ns, switch)
        behind = (now_ns - self._next_half_slot_ns) // self._half_slot_ns - HALF_SLOTS_TO_THE_TOP
        self._next_half_slot_ns += max(0, behind) * self._half_slot_ns
        while True:
            due_ns = self._due[0][0] if self._due else now_ns + 1
            half_slot_ns = self._next_half_slot_ns
            if due_ns <= min(now_ns, half_slot_ns):
                heapq.heappop(self._due)[2]()
            elif half_slot_ns <= now_ns:
                self._pass_on(self._parent, half_slot_ns)
                self._next_half_slot_ns += self._half_slot_ns
            else:
                return

    def _at(self, when_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when_ns, next(self._sequence), action))

    def _pass_on_at(self, when_ns: int, switch: str, *higher: str) -> None:
        """`switch` reallocates then, and each of the higher ones when it hears of it."""

        def reallocate() -> None:
            self._pass_on([switch], when_ns)
            if higher:
                self._pass_on_at(when_ns + self._latency_ns, *higher)

        if switch in self._parent:
            self._at(when_ns, reallocate)

    def _pass_on(self, switches: Iterable[str], now_ns: int) -> None:
        passed_on = [(self._parent[switch], self._all_heard_ns(switch, now_ns)) for switch in switches]

        def arrive() -> None:
            for parent, heard_ns in passed_on:
                self._heard_ns[parent].update(heard_ns)

        self._at(now_ns + self._latency_ns, arrive)

    def _all_heard_ns(self, switch: str, now_ns: int) -> Mapping[str, int]:
        return {switch: now_ns - self._latency_ns} if switch in self._above else dict(self._heard_ns[switch])

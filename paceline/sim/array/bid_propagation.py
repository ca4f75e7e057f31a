"""Bid propagation: how far renewed bids have come up the tree of switches, without sending a message.

A host renews its bids at the start of a slot. A renewed bid is no reason for a switch to reallocate; the switch passes
it on when it reallocates anyway,

    at every half slot,
    when a host below it claims or withdraws,
    when a flow from elsewhere begins or ends to cross its links: that may change its groups (arbitration.py),

and then passes on all it has heard. With d the latency and T_S the times at which the switch S reallocates, the bids
renewed below a ToR are known at the switches above it, P(S) the parent of S, up to

    heard_ToR(t) = t − d            heard_P(S)(t) = heard_S(last of T_S not after t − d)

Nothing of this is worked out before a reallocation asks: it ends no step of the engine.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from paceline.flowcore.model.domain import above
from paceline.flowcore.model.topology import Topology

# What was passed on this many half slots ago has come to the top of any tree.
HALF_SLOTS_TO_THE_TOP = 8
MOST_TIMES = 256  # that are kept of a switch, unless they are newer


class BidPropagation:
    """A delay of h·d says that a group is arbitrated by the h-th switch above its hosts; 0, by the hosts themselves."""

    def __init__(self, topology: Topology, latency_ns: int, half_slot_ns: int, epoch_ns: int = 0) -> None:
        self._latency_ns, self._half_slot_ns, self._epoch_ns = latency_ns, half_slot_ns, epoch_ns
        self._above = {tor: tuple(above(tor, topology)) for tor in dict.fromkeys(topology.switch_of.values())}
        parents = dict(pair for switches in self._above.values() for pair in pairwise(switches))
        # Of each switch with a parent, by so many latencies after a claim or withdrawal: when it reallocated for one.
        self._times_ns: dict[str, dict[int, list[int]]] = {switch: {} for switch in parents}

    def heard_ns(self, tor: str, delay_ns: int, now_ns: int) -> int:
        """Where such a group is arbitrated, the bids renewed below this ToR up to then are known."""
        if delay_ns <= self._latency_ns:
            return now_ns - delay_ns
        when_ns = now_ns
        for switch in reversed(self._above[tor][: delay_ns // self._latency_ns - 1]):
            last_ns = self._last_ns(switch, when_ns - self._latency_ns)
            if last_ns is None:
                return 0
            when_ns = last_ns
        return when_ns - self._latency_ns

    def _last_ns(self, switch: str, until_ns: int) -> int | None:
        """When the switch last reallocated."""
        since_ns = until_ns - self._epoch_ns
        last_ns = until_ns - since_ns % self._half_slot_ns if since_ns >= 0 else None
        for times_ns in self._times_ns[switch].values():
            count = bisect_right(times_ns, until_ns)
            if count and (last_ns is None or times_ns[count - 1] > last_ns):
                last_ns = times_ns[count - 1]
        return last_ns

    def changed(self, tor: str, delay_ns: int, passes: Iterable[str], now_ns: int) -> None:
        """A host below the ToR claims or withdraws; `passes`: the other switches that are told."""
        if not delay_ns:
            return
        for place, switch in enumerate(self._above[tor][: delay_ns // self._latency_ns], 1):
            self._reallocates(switch, place, now_ns)
        for switch in passes:
            self._reallocates(switch, 2, now_ns)

    def _reallocates(self, switch: str, latencies: int, now_ns: int) -> None:
        of_switch = self._times_ns.get(switch)
        if of_switch is None:
            return  # there is no switch above it
        when_ns, times_ns = now_ns + latencies * self._latency_ns, of_switch.get(latencies)
        if times_ns is None:
            of_switch[latencies] = [when_ns]
        elif times_ns[-1] != when_ns:
            times_ns.append(when_ns)
            if len(times_ns) > MOST_TIMES:
                del times_ns[: bisect_right(times_ns, now_ns - HALF_SLOTS_TO_THE_TOP * self._half_slot_ns)]

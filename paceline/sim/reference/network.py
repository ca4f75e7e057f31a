"""A fluid network: flows have rates, links have capacities, and bytes move continuously.

What binds a flow, in this order:

    its host       HTB on the NIC: a guaranteed rate first, then borrowing up to a ceiling (Limit)
    the links      TCP: max-min fair among all flows, whatever their hosts promised them, but for a flow that stands for
                   others beside cross traffic (Limit); MLTCP: by weights
    its upstream   a flow cannot forward what has not arrived: F_i ≤ min_j F_j + W_i (patterns.py)

Hosts protect their guarantees only on their own NIC, and only from each other's classes: cross traffic has no class,
passes by HTB, and takes its part of the line as a TCP flow does. Inside the network so does a flow that borrows too
much. Rates hold until something changes: a flow starts or ends, a limit moves, or a flow catches up with a feeder. F
counts over all iterations, so that it never goes back.

Three options for baselines: start-after jobs forward whole grains of what has arrived, contention takes from a link on
which jobs collide, and flows may have MLTCP's weights (paceline.flowcore.host.policy).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paceline.flowcore.allocation.aggressiveness import Aggressiveness, piece_bytes
from paceline.flowcore.allocation.fairshare import contended_bps, max_min
from paceline.flowcore.model.patterns import FlowId, FlowSpec, grain_bytes
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import UNLIMITED, transfer_bytes, transfer_ns
from paceline.sim.parameters import CAUGHT_UP_BYTES, DEPENDENCY_ROUNDS, HTB_ROUNDS, LOCAL_BPS


@dataclass(slots=True, eq=False)
class Channel:
    """The state of one flow."""

    flow: FlowId
    size_bytes: float
    window_bytes: float
    path: tuple[int, ...]
    grain_bytes: float = 0.0  # forwards in pieces of this size; 0: as it comes
    piece_bytes: float = 0.0  # its weight changes with each of these; 0: is plain TCP, with weight 1
    upstream: "tuple[Channel, ...]" = ()
    sent_bytes: float = 0.0  # F, over all iterations
    begun_bytes: float = 0.0  # F at which the current iteration began ...
    goal_bytes: float = 0.0  # ... and at which its burst is through
    rate_bps: float = 0.0
    guaranteed_bps: float = 0.0
    ceiling_bps: float = math.inf
    paced: bool = False  # has a Limit in force
    stands_for: float = 1.0  # beside others it counts for so many flows of TCP

    @property
    def active(self) -> bool:
        return self.sent_bytes < self.goal_bytes

    @property
    def piece(self) -> int:
        """Which of its iteration it is sending."""
        return math.floor((self.sent_bytes - self.begun_bytes + CAUGHT_UP_BYTES) / self.piece_bytes)

    @property
    def left_of_piece_bytes(self) -> float:
        return (self.piece + 1) * self.piece_bytes - (self.sent_bytes - self.begun_bytes)

    def weight(self, by: Aggressiveness | None) -> float:
        if by is None or not self.piece_bytes:
            return self.stands_for
        return by.weight(min(1.0, (self.piece + 0.5) * self.piece_bytes / self.size_bytes))

    def waits_for(self, feeder: "Channel") -> bool:
        """It has caught up with what this feeder delivered, and needs more than that."""
        gap = self.gap_bytes(feeder)
        return gap <= CAUGHT_UP_BYTES and gap < self.goal_bytes - self.sent_bytes

    def gap_bytes(self, feeder: "Channel") -> float:
        """How much more it may send of what this feeder delivered."""
        return self.delivered_bytes(feeder) + self.window_bytes - self.sent_bytes

    def delivered_bytes(self, feeder: "Channel") -> float:
        if not self.grain_bytes:
            return feeder.sent_bytes
        return math.floor((feeder.sent_bytes + CAUGHT_UP_BYTES) / self.grain_bytes) * self.grain_bytes


class FluidNetwork:
    def __init__(
        self,
        topology: Topology,
        *,
        start_after: bool = False,
        contention: float = 0.0,
        aggressiveness: Aggressiveness | None = None,
    ) -> None:
        self._topology = topology
        self._start_after, self._contention, self._aggressiveness = start_after, contention, aggressiveness
        self.links = tuple(topology.links)
        self._index = {name: index for index, name in enumerate(self.links)}
        self.capacity_bps = [topology.links[name].capacity_bps for name in self.links]
        self.channels: dict[FlowId, Channel] = {}
        self._active: dict[FlowId, Channel] = {}
        self._hung: set[str] = set()
        self._now_ns = 0
        self._change_ns: int | None = None
        self._stale = True

    def add(self, specs: Iterable[FlowSpec], bursts: int = 1) -> None:
        """Flows of a job that sends its iteration in so many bursts."""
        specs = tuple(specs)
        for spec in specs:
            flow = spec.flow
            path = self._topology.path(flow.source, flow.target, str(flow))
            links = tuple(self._index[name] for name in path)
            # A burst has arrived whole when it has: what a flow waits for is never in the next one.
            grain = min(grain_bytes(spec), spec.size_bytes / bursts) if self._start_after else 0.0
            weighted = self._aggressiveness is not None and math.isfinite(spec.size_bytes)
            piece = piece_bytes(spec.size_bytes) if weighted else 0.0
            self.channels[flow] = Channel(flow, spec.size_bytes, spec.window_bytes, links, grain, piece)
        for spec in specs:
            self.channels[spec.flow].upstream = tuple(self.channels[feeder] for feeder in spec.upstream)

    def remove(self, flows: Iterable[FlowId]) -> None:
        for flow in flows:
            del self.channels[flow]
            self._active.pop(flow, None)
        self._stale = True

    def start(self, flow: FlowId, until_bytes: float = UNLIMITED) -> None:
        """The flow has a burst waiting: its iteration's bytes until `until_bytes`, or all of them."""
        channel = self.channels[flow]
        if channel.goal_bytes >= channel.begun_bytes + channel.size_bytes:
            channel.begun_bytes = channel.goal_bytes
        channel.goal_bytes = channel.begun_bytes + min(until_bytes, channel.size_bytes)
        self._active[flow] = channel
        self._stale = True

    def stop(self, flow: FlowId) -> None:
        """Drop what is left; cross traffic ends by the clock."""
        self._active.pop(flow, None)
        self._stale = True

    def limit(self, flow: FlowId, rate_bps: float, ceiling_bps: float, stands_for: float = 1.0) -> None:
        channel = self.channels[flow]
        channel.stands_for = stands_for
        channel.paced = ceiling_bps != math.inf
        channel.guaranteed_bps = rate_bps if channel.paced else 0.0
        channel.ceiling_bps = ceiling_bps
        self._stale |= flow in self._active

    def hang(self, job: str) -> None:
        """From now on none of the job's bytes move, whatever it announces: a collective that waits for ever."""
        self._hung.add(job)
        self._stale = True

    def resume(self, job: str) -> None:
        """What hung moves again."""
        self._hung.discard(job)
        self._stale = True

    def cap(self, flow: FlowId, rate_bps: float) -> None:
        """The flow offers no more than this, and no host paces it."""
        self.channels[flow].ceiling_bps = rate_bps

    def advance(self, now_ns: int) -> None:
        elapsed_ns = now_ns - self._now_ns
        self._now_ns = now_ns
        if elapsed_ns:
            for channel in self._active.values():
                moved = transfer_bytes(channel.rate_bps, elapsed_ns)
                channel.sent_bytes = min(channel.sent_bytes + moved, channel.goal_bytes)

    def finished(self) -> list[FlowId]:
        """Flows that have sent all they had; they stop here."""
        done = [flow for flow, channel in self._active.items() if not channel.active]
        for flow in done:
            self._active.pop(flow).rate_bps = 0.0
            self._stale = True
        return done

    def next_change_ns(self) -> int | None:
        """When a flow ends, catches up with a feeder or changes its weight, at the present rates."""
        if self._stale:
            self._solve()
            self._change_ns = self._soonest_ns()
        return self._change_ns

    def _soonest_ns(self) -> int | None:
        soonest_ns: int | None = None
        for channel in self._active.values():
            rate = channel.rate_bps
            if channel.goal_bytes == math.inf:
                continue  # ends by the clock
            if rate <= 0.0:
                wait_ns = self._next_grain_ns(channel)
                if wait_ns is None:
                    continue
            else:
                left_bytes = channel.goal_bytes - channel.sent_bytes
                if channel.piece_bytes:
                    left_bytes = min(left_bytes, channel.left_of_piece_bytes)
                wait_ns = transfer_ns(left_bytes, rate)
                for feeder in channel.upstream:
                    gap = channel.gap_bytes(feeder)
                    gains_bps = rate if channel.grain_bytes else rate - feeder.rate_bps
                    if gap > CAUGHT_UP_BYTES and gains_bps > 0.0:
                        wait_ns = min(wait_ns, transfer_ns(gap, gains_bps))
            if soonest_ns is None or wait_ns < soonest_ns:
                soonest_ns = wait_ns
        return None if soonest_ns is None else self._now_ns + max(soonest_ns, 1)

    def _next_grain_ns(self, channel: Channel) -> int | None:
        """Until a feeder completes the grain that this flow waits for."""
        waits = [
            transfer_ns(channel.delivered_bytes(feeder) + channel.grain_bytes - feeder.sent_bytes, feeder.rate_bps)
            for feeder in channel.upstream
            if channel.grain_bytes and feeder.rate_bps > 0.0 and channel.waits_for(feeder)
        ]
        return min(waits, default=None)

    def touch(self) -> None:
        """What was foreseen has come: rates must be solved anew."""
        self._stale = True

    def sent_in_iteration(self, flow: FlowId) -> float:
        channel = self.channels[flow]
        return channel.sent_bytes - channel.begun_bytes

    def rates(self) -> Mapping[FlowId, float]:
        self.next_change_ns()
        return {flow: channel.rate_bps for flow, channel in self._active.items()}

    # ---- Rates ----

    def _solve(self) -> None:
        self._stale = False
        channels = [channel for channel in self._active.values() if channel.flow.job not in self._hung]
        for channel in self.channels.values():
            channel.rate_bps = 0.0
        ceilings = [min(channel.ceiling_bps, LOCAL_BPS) if channel.path else LOCAL_BPS for channel in channels]
        waiting = [
            index
            for index, channel in enumerate(channels)
            if any(channel.waits_for(feeder) for feeder in channel.upstream)
        ]
        rates = self._share(channels, ceilings)
        self._apply(channels, rates)
        for _ in range(DEPENDENCY_ROUNDS):
            held = False
            for index in waiting:
                channel = channels[index]
                pace = self._pace(channel)
                if pace < channel.rate_bps * (1 - 1e-9):
                    ceilings[index] = min(ceilings[index], pace)
                    channel.rate_bps = pace
                    held = True
            if not held:
                return
            rates = self._share(channels, ceilings)
            self._apply(channels, rates)
        # A ring of waiting flows can pass small differences round for ever; the last round's rates respect every
        # link, and what a flow may be ahead by now is caught by the next change.
        for index in waiting:
            channel = channels[index]
            channel.rate_bps = min(channel.rate_bps, self._pace(channel))

    @staticmethod
    def _pace(channel: Channel) -> float:
        """Of a flow that has caught up: as fast as the slowest feeder, or not at all before the next grain."""
        if channel.grain_bytes:
            return 0.0
        return min(feeder.rate_bps for feeder in channel.upstream if channel.waits_for(feeder))

    def _apply(self, channels: Sequence[Channel], rates: Sequence[float]) -> None:
        for channel, rate in zip(channels, rates, strict=True):
            channel.rate_bps = rate

    def _share(self, channels: Sequence[Channel], ceilings: Sequence[float]) -> list[float]:
        """TCP's division of the links, with NICs divided by HTB where flows are paced."""
        paths = [channel.path for channel in channels]
        by = self._aggressiveness
        weighted = by is not None or any(channel.stands_for != 1.0 for channel in channels)
        weights = [channel.weight(by) for channel in channels] if weighted else None
        capacity_bps = self._carried_bps(channels, ceilings)
        nics: dict[int, list[int]] = {}
        for index, channel in enumerate(channels):
            if channel.path and channel.paced:
                nics.setdefault(channel.path[0], []).append(index)
        crowded = [
            (nic, members)
            for nic, members in nics.items()
            if len(members) > 1 and sum(ceilings[index] for index in members) > self.capacity_bps[nic]
        ]
        if not crowded:
            return max_min(paths, ceilings, capacity_bps, weights)
        wanted = list(ceilings)
        rates: list[float] = []
        for _ in range(HTB_ROUNDS):
            allowed = list(wanted)
            for nic, members in crowded:
                guaranteed = [channels[index].guaranteed_bps for index in members]
                shares = htb([wanted[index] for index in members], guaranteed, self.capacity_bps[nic])
                for index, share in zip(members, shares, strict=True):
                    allowed[index] = share
            rates = max_min(paths, allowed, capacity_bps, weights)
            # A flow the network holds below its share of the NIC leaves the rest to its neighbours there.
            held = [
                index
                for _, members in crowded
                for index in members
                if rates[index] < allowed[index] * (1 - 1e-9) and rates[index] < wanted[index] * (1 - 1e-9)
            ]
            if not held:
                break
            for index in held:
                wanted[index] = rates[index]
        return rates

    def _carried_bps(self, channels: Sequence[Channel], ceilings: Sequence[float]) -> list[float]:
        """What each link carries, less what the jobs that send over it now lose by colliding."""
        if not self._contention:
            return self.capacity_bps
        jobs_on: dict[int, set[str]] = {}
        for channel, ceiling in zip(channels, ceilings, strict=True):
            if ceiling > 0.0:
                for link in channel.path:
                    jobs_on.setdefault(link, set()).add(channel.flow.job)
        carried_bps = list(self.capacity_bps)
        for link, jobs in jobs_on.items():
            carried_bps[link] = contended_bps(carried_bps[link], len(jobs), self._contention)
        return carried_bps


def htb(wanted_bps: Sequence[float], guaranteed_bps: Sequence[float], capacity_bps: float) -> list[float]:
    """What an HTB class tree gives to its leaves: guarantees first, then equal borrowing up to what is wanted."""
    firm = [min(want, guarantee) for want, guarantee in zip(wanted_bps, guaranteed_bps, strict=True)]
    base = _equally(firm, capacity_bps)
    more = [want - got for want, got in zip(wanted_bps, base, strict=True)]
    extra = _equally(more, max(0.0, capacity_bps - sum(base)))
    return [got + plus for got, plus in zip(base, extra, strict=True)]


def _equally(wanted_bps: Sequence[float], capacity_bps: float) -> list[float]:
    """Max-min on one link."""
    left_bps, left = capacity_bps, len(wanted_bps)
    shares = [0.0] * left
    for index in sorted(range(left), key=wanted_bps.__getitem__):
        shares[index] = min(wanted_bps[index], left_bps / left)
        left_bps -= shares[index]
        left -= 1
    return shares

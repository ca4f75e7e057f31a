"""The fluid network of paceline.sim.reference.network over arrays: one entry per flow, one pass of numpy per step.

The same three limits bind a flow: its host's HTB, max-min sharing of the links, and what its upstream flows have
delivered. What differs is how time passes. Rates hold for a step of at least `step_ns`, within which flows end at their
own exact time; and instead of looking for the instant at which a flow catches up with a feeder, a step ends no flow
beyond

    F_i(t + step)  ≤  min_j F_j(t + step) + W_i            with F_j(t + step) from the rates of the step before,

so a slower feeder's rate reaches its downstream flows one step later, and one round of sharing per step is enough.
Should a feeder turn out slower than foreseen, its downstream flows are held back to what it really sent, and theirs,
round the ring:

    F_i  ≤  min_j F_j + W_i            at the end of every step

A flow ahead of that could be through before its receiver has begun to listen, and the ring would stand still.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.allocation.fairshare import contended_bps
from paceline.flowcore.model.patterns import FlowId, FlowSpec, grain_bytes
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import BITS_PER_BYTE, NS_PER_S
from paceline.sim.array.feeds import AllFeeds, Feeds, all_feeds, feeds_of
from paceline.sim.array.flow_table import FlowTable
from paceline.sim.array.sharing import htb, max_min
from paceline.sim.parameters import CAUGHT_UP_BYTES, DEPENDENCY_ROUNDS, HTB_ROUNDS, LOCAL_BPS

_BIT_NS_PER_BYTE_S = float(BITS_PER_BYTE * NS_PER_S)

# A step is never shorter than this per flow that sends, within these bounds.
STEP_NS_PER_FLOW = 5_000
SHORTEST_STEP_NS = 10_000
LONGEST_MIN_STEP_NS = 10_000_000

# From here on a step is long enough for rates to converge in the next one.
COARSE_STEP_NS = 1_000_000

# While rates have yet to converge.
UNCONVERGED_STEP_NS = 500_000

# With this many flows something ends within every step, so looking for the next change is wasted.
CROWD = 256

# With no flow to wait for: a job or a control has something to do before.
LONGEST_STEP_NS = NS_PER_S

# F counts over all iterations: after an hour at 10 Gbit/s a double resolves a thousandth of a byte.
ROUNDING_BYTES = 0.01

# A rate that moved by less than this part has converged: the next step may be a long one.
CONVERGED = 1e-3


class ArrayNetwork(FlowTable):
    def __init__(
        self, topology: Topology, step_ns: int | None, *, start_after: bool = False, contention: float = 0.0
    ) -> None:
        self.topology = topology
        self._fixed_step_ns = step_ns
        self.links = tuple(topology.links)
        super().__init__(beyond=len(self.links))
        self.link_index = {name: index for index, name in enumerate(self.links)}
        self.capacity_bps: Floats = np.array([*(topology.links[name].capacity_bps for name in self.links), np.inf])
        self.now_ns = 0
        self.specs: list[FlowSpec | None] = []  # by row
        self.numbers: dict[FlowId, int] = {}  # rows
        self._start_after, self._contention = start_after, contention
        self._free: list[int] = []  # rows
        self._feeds: dict[str, Feeds] = {}  # by job
        self._all_feeds: AllFeeds | None = None  # None: jobs came or left since
        self._carried_bytes: Floats = np.zeros(len(self.capacity_bps))
        self._solved: Ints = np.zeros(0, np.int64)  # the flows whose rates were solved last
        self._stale = True
        self._converged = True
        self._change_ns = 0

    # ---- Flows come and go ----

    def add(self, specs: Iterable[FlowSpec], job: int) -> Ints:
        """Enter a job's flows; returns their numbers."""
        specs = tuple(specs)
        paths = [self.topology.path(s.flow.source, s.flow.target, str(s.flow)) for s in specs]
        longest, hops = max(map(len, paths), default=0), self.path.shape[1]
        missing = len(specs) - len(self._free)
        if longest > hops or len(self.specs) + missing > self.rows:
            self.grow(max(self.rows, 2 * (len(self.specs) + len(specs))), max(hops, longest))
        numbers = np.array([self._enter(spec, path) for spec, path in zip(specs, paths, strict=True)], np.int64)
        self.job[numbers] = job
        self._feeds[specs[0].flow.job] = feeds_of(specs, self.numbers)
        self._all_feeds = None
        return numbers

    def _enter(self, spec: FlowSpec, path: Sequence[str]) -> int:
        if self._free:
            number = self._free.pop()
            self.specs[number] = spec
        else:
            number = len(self.specs)
            self.specs.append(spec)
        self.numbers[spec.flow] = number
        self.size[number], self.window[number] = spec.size_bytes, spec.window_bytes
        self.grain[number] = grain_bytes(spec) if self._start_after else 0.0
        self.sent[number] = self.goal[number] = self.rate[number] = self.firm[number] = 0.0
        self.ceiling[number] = math.inf if path else LOCAL_BPS
        self.live[number] = self.paced[number] = False
        self.path[number] = self.beyond
        self.path[number, : len(path)] = [self.link_index[name] for name in path]
        return number

    def remove(self, job: str, numbers: Ints) -> None:
        self._carried_bytes += self._over_links(numbers, self.sent[numbers])
        for number in numbers.tolist():
            del self.numbers[self.flow(number)]
            self.specs[number] = None
        self.live[numbers] = False
        self._free += numbers.tolist()
        del self._feeds[job]
        self._all_feeds = None
        self._stale = True

    @property
    def feeds(self) -> AllFeeds:
        if self._all_feeds is None:
            self._all_feeds = all_feeds(tuple(self._feeds.values()), self.grain)
        return self._all_feeds

    def start(self, number: int) -> None:
        """The flow has one more iteration's bytes waiting."""
        self.goal[number] += self.size[number]
        self.live[number] = True
        self._stale = True

    def stop(self, number: int) -> None:
        self.live[number] = False
        self.rate[number] = 0.0
        self._stale = True

    def limit(self, numbers: Ints | int, firm_bps: Floats | float, ceiling_bps: Floats | float) -> None:
        """Limit, of one flow or of many."""
        self.firm[numbers], self.ceiling[numbers] = firm_bps, ceiling_bps
        self.paced[numbers] = np.isfinite(ceiling_bps)
        self._stale = True

    def cap(self, number: int, rate_bps: float) -> None:
        """The flow offers no more than this, and no host paces it."""
        self.firm[number] = self.ceiling[number] = rate_bps

    def flow(self, number: int) -> FlowId:
        spec = self.specs[number]
        assert spec is not None
        return spec.flow

    @property
    def sending(self) -> int:
        """How many flows have bytes waiting."""
        return int(np.count_nonzero(self.live))

    @property
    def remaining(self) -> Floats:
        return np.maximum(self.goal - self.sent, 0.0)

    def carried_bytes(self) -> Floats:
        """Over each link, since the beginning."""
        present = np.array(list(self.numbers.values()), int)
        return (self._carried_bytes + self._over_links(present, self.sent[present]))[:-1]

    def _over_links(self, numbers: Ints, volume: Floats) -> Floats:
        hops = self.path[numbers]
        carried = np.bincount(hops.ravel(), np.repeat(volume, hops.shape[1]), len(self.capacity_bps))
        return carried.astype(np.float64, copy=False)

    # ---- Time ----

    @property
    def step_ns(self) -> int:
        """The shortest step: longer with more flows, so that a simulated second costs at most as many passes."""
        if self._fixed_step_ns is not None:
            return self._fixed_step_ns
        return min(max(STEP_NS_PER_FLOW * self.sending, SHORTEST_STEP_NS), LONGEST_MIN_STEP_NS)

    def next_change_ns(self) -> int:
        """When the next step should end, unless something else happens first; never sooner than a step."""
        if self._stale or not self._converged:
            self._solve()
        live = self._solved
        self._change_ns = soonest_ns = self.now_ns + self.step_ns
        if not len(live) or len(live) > CROWD:
            return soonest_ns
        if not self._converged:
            # A ring of waiting flows can pass small differences round for ever.
            self._change_ns = max(soonest_ns, self.now_ns + UNCONVERGED_STEP_NS)
            return self._change_ns
        rate = self.rate[live]
        left, allowed = self.goal[live] - self.sent[live], self._allowed_bytes(0)[live]
        # A flow within a step of its upstream has caught up with it: _solve holds the flow to that pace.
        within = CAUGHT_UP_BYTES + rate * (2 * self.step_ns / _BIT_NS_PER_BYTE_S)
        left = np.where(allowed > within, np.minimum(left, allowed), left)
        if self._start_after:
            grain = self.grain[live]
            to_boundary = grain - np.mod(self.sent[live], grain)
            left = np.where(to_boundary > CAUGHT_UP_BYTES, np.minimum(left, to_boundary), left)
        sending = rate > 0.0
        wait_ns = left[sending] * _BIT_NS_PER_BYTE_S / rate[sending]
        self._change_ns = max(soonest_ns, self.now_ns + math.ceil(wait_ns.min(initial=LONGEST_STEP_NS)))
        return self._change_ns

    def advance(self, to_ns: int) -> list[tuple[int, int]]:
        """Let bytes move; returns (time, flow) of those that are through, in order."""
        elapsed_ns = to_ns - self.now_ns
        before_ns, self.now_ns = self.now_ns, to_ns
        self._stale |= to_ns >= self._change_ns
        live = np.flatnonzero(self.live)
        if not elapsed_ns or not len(live):
            return []
        before = self.sent.copy()
        rate, sent, goal = self.rate[live], before[live], self.goal[live]
        self.sent[live] = np.minimum(sent + rate * (elapsed_ns / _BIT_NS_PER_BYTE_S), goal)
        self._hold_back(before)
        through = np.flatnonzero(self.sent[live] >= goal - ROUNDING_BYTES)
        # To the nanosecond, rounded up: a plan made to end with its slot ends just before or just after the next one
        # begins, as in paceline.sim.reference.network, and the host reports it once more or does not.
        end_ns = before_ns + _transfer_ns(goal[through] - sent[through], rate[through])
        through, end_ns = through[end_ns <= to_ns], end_ns[end_ns <= to_ns]
        if not len(through):
            return []
        ended = live[through]
        self.sent[ended] = self.goal[ended]
        self.live[ended] = False
        self.rate[ended] = 0.0
        self._stale = True
        return sorted(zip(end_ns.astype(np.int64).tolist(), ended.tolist(), strict=True))

    # ---- Rates ----

    def _hold_back(self, before: Floats) -> None:
        """No flow forwards what has not arrived; `before`: F at the beginning of the step, when that was so."""
        fed, by = self.feeds.fed, self.feeds.by
        while len(fed):
            most = self._slowest_bytes(0)[by] + self.window[fed]
            ahead = np.flatnonzero(self.sent[fed] > most + ROUNDING_BYTES)
            late = fed[ahead]
            held = np.maximum(before[late], most[ahead])
            if not (held < self.sent[late]).any():
                return
            self.sent[late] = held

    def _slowest_bytes(self, ahead_ns: int) -> Floats:
        """What the slowest flow of every feed will have delivered by then."""
        feeds = self.feeds
        upstream = feeds.upstream
        if self._start_after:
            grain = feeds.upstream_grain
            delivered = np.floor((self.sent[upstream] + CAUGHT_UP_BYTES) / grain) * grain
        else:
            moving = self.rate[upstream] * (ahead_ns / _BIT_NS_PER_BYTE_S)
            delivered = np.minimum(self.sent[upstream] + moving, self.goal[upstream])
        slowest: Floats = np.minimum.reduceat(delivered, feeds.first_upstream)
        return slowest

    def _allowed_bytes(self, ahead_ns: int) -> Floats:
        """How much more each flow may send until `ahead_ns` from now, given what its upstream will have delivered."""
        feeds = self.feeds
        allowed = np.full(self.rows, np.inf)
        if len(fed := feeds.fed):
            allowed[fed] = self._slowest_bytes(ahead_ns)[feeds.by] + self.window[fed] - self.sent[fed]
        return allowed

    def _solve(self) -> None:
        self._stale = False
        live = self._solved = np.flatnonzero(self.live)
        if not len(live):
            self._converged = True
            return
        step_ns = self.step_ns
        before = self.rate[live]
        for _ in range(1 if len(live) > CROWD or step_ns >= COARSE_STEP_NS else DEPENDENCY_ROUNDS):
            allowed = np.maximum(self._allowed_bytes(step_ns)[live], 0.0)
            waits = allowed < self.goal[live] - self.sent[live]
            limits = np.minimum(self.ceiling[live], LOCAL_BPS)
            limits = np.where(waits, np.minimum(limits, allowed * (_BIT_NS_PER_BYTE_S / step_ns)), limits)
            rates = self._share(live, limits)
            self.rate[live] = rates
            self._converged = not _differ(rates, before)
            if self._converged:
                return
            before = rates

    def _share(self, live: Ints, limits: Floats) -> Floats:
        paths, nic = self.path[live], self.path[live, 0]
        capacity = self._carried_bps(live, limits)
        links = len(capacity)
        crowded = np.bincount(nic, limits, links) > capacity
        crowded &= np.bincount(nic, self.paced[live], links) > 0
        crowded &= np.bincount(nic, minlength=links) > 1
        on_crowded = np.flatnonzero(crowded[nic])
        if not len(on_crowded):
            return max_min(paths, limits, capacity)
        wanted = limits.copy()
        firm = self.firm[live[on_crowded]]
        rates = wanted
        for _ in range(1 if self.step_ns >= COARSE_STEP_NS else HTB_ROUNDS):
            allowed = wanted.copy()
            allowed[on_crowded] = htb(wanted[on_crowded], firm, nic[on_crowded], self.capacity_bps)
            rates = max_min(paths, allowed, capacity)
            # A flow the network holds below its share of the NIC leaves the rest to its neighbours there.
            got, most = rates[on_crowded], np.minimum(allowed, wanted)[on_crowded]
            held = on_crowded[got < most * (1 - 1e-9)]
            if not len(held):
                break
            wanted[held] = rates[held]
        return rates

    def _carried_bps(self, live: Ints, limits: Floats) -> Floats:
        """What each link carries, less what the jobs that send over it now lose by colliding."""
        if not self._contention:
            return self.capacity_bps
        sending = live[limits > 0.0]
        pairs = np.unique(self.path[sending] * (int(self.job.max()) + 2) + self.job[sending, None] + 1)
        jobs = np.bincount(pairs // (int(self.job.max()) + 2), minlength=len(self.capacity_bps))
        carried_bps: Floats = contended_bps(self.capacity_bps, np.maximum(jobs, 1), self._contention)
        return carried_bps


def _transfer_ns(size_bytes: Floats, rate_bps: Floats) -> Floats:
    """As paceline.flowcore.model.units.transfer_ns; 0 for what stands still with nothing but rounding left to send."""
    moving = rate_bps > 0.0
    duration_ns = np.zeros(len(size_bytes))
    np.divide(size_bytes * _BIT_NS_PER_BYTE_S, rate_bps, out=duration_ns, where=moving)
    duration_ns = np.ceil(duration_ns)
    return duration_ns + (moving & (rate_bps * duration_ns / _BIT_NS_PER_BYTE_S < size_bytes))


def _differ(rates: Floats, before: Floats) -> bool:
    return bool((np.abs(rates - before) > CONVERGED * np.maximum(rates, before)).any())

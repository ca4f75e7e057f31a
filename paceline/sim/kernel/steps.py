"""How a network of flows steps, in numpy: the reference of steps_in_c.py and what runs where there is no compiler.

Rates hold for a step of at least `step_ns`, within which flows end at their own exact time. A step ends no flow beyond

    F_i(t + step)  ≤  min_j F_j(t + step) + W_i            with F_j(t + step) from the rates of the step before,

so a slower feeder's rate reaches its downstream flows one step later, and one round of sharing per step is enough.
Should a feeder turn out slower than foreseen, its downstream flows are held back to what it really sent, and theirs,
round the ring:

    F_i  ≤  min_j F_j + W_i            at the end of every step

A flow ahead of that could be through before its receiver has begun to listen, and the ring would stand still.
"""

import math
from typing import NamedTuple, Protocol

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.allocation.fairshare import contended_bps
from paceline.flowcore.model.units import BITS_PER_BYTE, NS_PER_S
from paceline.sim.kernel.flow_table import NetworkTable
from paceline.sim.kernel.sharing import htb, max_min
from paceline.sim.parameters import CAUGHT_UP_BYTES, DEPENDENCY_ROUNDS, HTB_ROUNDS, LOCAL_BPS

_BIT_NS_PER_BYTE_S = float(BITS_PER_BYTE * NS_PER_S)

# A step is never shorter than this per flow that sends, within these bounds, ...
STEP_NS_PER_FLOW = 5_000
SHORTEST_STEP_NS = 10_000
LONGEST_MIN_STEP_NS = 10_000_000

# ... but one that follows such a step may end within this time, and so may one that something outside the network ends:
# new rates would come late. Where jobs hand over, a flow that waits sent a few packets more for it: with 30 µs a job
# that shortest-first starves made a third more iterations. Not two in a row: rings pass small changes round for ever.
SHORTEST_TO_CHANGE_NS = 1_000

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


class Events(NamedTuple):
    """What a driver is told at the end of a step."""

    ended: list[tuple[int, int]]  # (time, flow) of those that are through, in order
    marked: list[int]  # flows that have come to their mark, by row


class Steps(Protocol):
    now_ns: int

    @property
    def steps(self) -> int: ...

    @property
    def flow_steps(self) -> int:
        """Σ over steps of the flows that were sending."""

    def changed(self) -> None:
        """Flows or limits are others than before: rates must be found anew."""

    def grown(self) -> None:
        """Flows have come: columns may lie elsewhere."""

    def sending(self) -> int:
        """How many flows have bytes waiting."""

    def run(self, event_ns: int, control_ns: int, until_ns: int) -> Events:
        """Step until a flow is through or comes to its mark, or to the first of these times.

        An event ends a step of flows nearly at once, and a control at once, unless steps are coarse: then the step is
        as long as others.
        """


class NumpySteps:
    def __init__(self, table: NetworkTable) -> None:
        self.table = table
        self.now_ns = 0
        self.steps = self.flow_steps = 0
        self._solved: Ints = np.zeros(0, np.int64)  # the flows whose rates were solved last
        self._stale = True
        self._converged = True
        self._change_ns = 0
        self._short = False  # the last step was shorter than steps are

    def run(self, event_ns: int, control_ns: int, until_ns: int) -> Events:
        table, first_ns = self.table, min(event_ns, control_ns, until_ns)
        while True:
            next_ns = first_ns
            if flows := self.sending():
                step_ns = self.step_ns()
                coarse = step_ns >= COARSE_STEP_NS
                least_ns = self.now_ns + (step_ns if coarse else min(step_ns, SHORTEST_TO_CHANGE_NS))
                next_ns = min(max(event_ns, least_ns), self.next_change_ns())
                stop_ns = min(control_ns, self._mark_ns())
                next_ns = min(next_ns, max(stop_ns, least_ns) if coarse else stop_ns, until_ns)
                self.steps += 1
                self.flow_steps += flows
                self._short = next_ns < self.now_ns + step_ns
            ended = self.advance(max(next_ns, self.now_ns))
            marked = np.flatnonzero(table.live & (table.sent >= table.mark))
            table.mark[marked] = np.inf
            if ended or len(marked) or self.now_ns >= first_ns:
                return Events(ended, marked.tolist())

    def _mark_ns(self) -> int:
        """When the first flow comes to its mark; not looked for in a crowd, where steps are short anyway."""
        table, wait_ns = self.table, float(LONGEST_STEP_NS)
        if len(self._solved) <= CROWD:
            rows = self._solved
            rows = rows[(table.mark[rows] < np.inf) & (table.rate[rows] > 0.0)]
            waits_ns = (table.mark[rows] - table.sent[rows]) * _BIT_NS_PER_BYTE_S / table.rate[rows]
            wait_ns = float(waits_ns.min(initial=wait_ns))
        return self.now_ns + max(math.ceil(wait_ns), 1)

    def changed(self) -> None:
        self._stale = True

    def grown(self) -> None:
        """Columns are looked up anew in every step."""

    def sending(self) -> int:
        return int(np.count_nonzero(self.table.live))

    def step_ns(self) -> int:
        if self.table.fixed_step_ns is not None:
            return self.table.fixed_step_ns
        return min(max(STEP_NS_PER_FLOW * self.sending(), SHORTEST_STEP_NS), LONGEST_MIN_STEP_NS)

    def next_change_ns(self) -> int:
        table = self.table
        if self._stale or not self._converged:
            self._solve()
        live = self._solved
        self._change_ns = soonest_ns = self.now_ns + self.step_ns()
        if not len(live) or len(live) > CROWD:
            return soonest_ns
        if not self._short and self.step_ns() < COARSE_STEP_NS:
            soonest_ns = self.now_ns + min(self.step_ns(), SHORTEST_TO_CHANGE_NS)
        if not self._converged:
            # A ring of waiting flows can pass small differences round for ever.
            self._change_ns = max(soonest_ns, self.now_ns + UNCONVERGED_STEP_NS)
            return self._change_ns
        rate = table.rate[live]
        all_allowed = self._allowed_bytes(0)
        left, allowed = table.goal[live] - table.sent[live], all_allowed[live]
        # A flow within a step of its upstream has caught up with it: _solve holds the flow to that pace.
        within = CAUGHT_UP_BYTES + rate * (2 * self.step_ns() / _BIT_NS_PER_BYTE_S)
        left = np.where(allowed > within, np.minimum(left, allowed), left)
        if table.start_after:
            grain = table.grain[live]
            to_boundary = grain - np.mod(table.sent[live], grain)
            left = np.where(to_boundary > CAUGHT_UP_BYTES, np.minimum(left, to_boundary), left)
        if table.aggressiveness is not None:
            weighted = np.flatnonzero(table.piece[live])
            rows = live[weighted]
            of_piece = (self._piece(rows) + 1.0) * table.piece[rows] - self._sent_in_iteration(rows)
            left[weighted] = np.minimum(left[weighted], of_piece)
        sending = rate > 0.0
        wait_ns = left[sending] * _BIT_NS_PER_BYTE_S / rate[sending]
        soonest_wait_ns = min(float(wait_ns.min(initial=LONGEST_STEP_NS)), self._caught_up_ns(all_allowed))
        self._change_ns = max(soonest_ns, self.now_ns + math.ceil(soonest_wait_ns))
        return self._change_ns

    def _caught_up_ns(self, allowed: Floats) -> float:
        """Until a flow that is within a step of its upstream, but faster, has caught up: what it has beyond its
        upstream's rate is then free for other flows."""
        table, feeds = self.table, self.table.feeds
        if table.start_after or not len(feeds.fed):
            return math.inf
        rate, gap = table.rate[feeds.fed], np.maximum(allowed[feeds.fed], 0.0)
        waiting = table.live[feeds.fed] & (gap <= CAUGHT_UP_BYTES + rate * (2 * self.step_ns() / _BIT_NS_PER_BYTE_S))
        slowest_bps = np.minimum.reduceat(table.rate[feeds.upstream], feeds.first_upstream)
        gains_bps = rate - slowest_bps[feeds.by]
        closing = waiting & (gains_bps > CONVERGED * rate)
        wait_ns = gap[closing] * _BIT_NS_PER_BYTE_S / gains_bps[closing]
        return float(wait_ns.min(initial=np.inf))

    def advance(self, to_ns: int) -> list[tuple[int, int]]:
        table = self.table
        elapsed_ns = to_ns - self.now_ns
        before_ns, self.now_ns = self.now_ns, to_ns
        self._stale |= to_ns >= self._change_ns
        live = np.flatnonzero(table.live)
        if not elapsed_ns or not len(live):
            return []
        before = table.sent.copy()
        rate, sent, goal = table.rate[live], before[live], table.goal[live]
        table.sent[live] = np.minimum(sent + rate * (elapsed_ns / _BIT_NS_PER_BYTE_S), goal)
        self._hold_back(before)
        through = np.flatnonzero(table.sent[live] >= goal - ROUNDING_BYTES)
        # To the nanosecond, rounded up: a plan made to end with its slot ends just before or just after the next one
        # begins, as in paceline.sim.reference.network, and the host reports it once more or does not.
        end_ns = before_ns + _transfer_ns(goal[through] - sent[through], rate[through])
        through, end_ns = through[end_ns <= to_ns], end_ns[end_ns <= to_ns]
        if not len(through):
            return []
        ended = live[through]
        table.sent[ended] = table.goal[ended]
        table.live[ended] = False
        table.rate[ended] = 0.0
        self._stale = True
        return sorted(zip(end_ns.astype(np.int64).tolist(), ended.tolist(), strict=True))

    # ---- Rates ----

    def _hold_back(self, before: Floats) -> None:
        """No flow forwards what has not arrived; `before`: F at the beginning of the step, when that was so."""
        table = self.table
        fed, by = table.feeds.fed, table.feeds.by
        while len(fed):
            most = self._slowest_bytes(0)[by] + table.window[fed]
            ahead = np.flatnonzero(table.sent[fed] > most + ROUNDING_BYTES)
            late = fed[ahead]
            held = np.maximum(before[late], most[ahead])
            if not (held < table.sent[late]).any():
                return
            table.sent[late] = held

    def _slowest_bytes(self, ahead_ns: int) -> Floats:
        """What the slowest flow of every feed will have delivered by then."""
        table = self.table
        feeds = table.feeds
        upstream = feeds.upstream
        if table.start_after:
            grain = feeds.upstream_grain
            delivered = np.floor((table.sent[upstream] + CAUGHT_UP_BYTES) / grain) * grain
        else:
            moving = table.rate[upstream] * (ahead_ns / _BIT_NS_PER_BYTE_S)
            delivered = np.minimum(table.sent[upstream] + moving, table.goal[upstream])
        slowest: Floats = np.minimum.reduceat(delivered, feeds.first_upstream)
        return slowest

    def _allowed_bytes(self, ahead_ns: int) -> Floats:
        """How much more each flow may send until `ahead_ns` from now, given what its upstream will have delivered."""
        table = self.table
        feeds = table.feeds
        allowed = np.full(table.rows, np.inf)
        if len(fed := feeds.fed):
            allowed[fed] = self._slowest_bytes(ahead_ns)[feeds.by] + table.window[fed] - table.sent[fed]
        return allowed

    def _solve(self) -> None:
        table = self.table
        self._stale = False
        live = self._solved = np.flatnonzero(table.live)
        if not len(live):
            self._converged = True
            return
        step_ns = self.step_ns()
        before = table.rate[live]
        for _ in range(1 if len(live) > CROWD or step_ns >= COARSE_STEP_NS else DEPENDENCY_ROUNDS):
            allowed = np.maximum(self._allowed_bytes(step_ns)[live], 0.0)
            waits = allowed < table.goal[live] - table.sent[live]
            limits = np.minimum(table.ceiling[live], LOCAL_BPS)
            limits = np.where(waits, np.minimum(limits, allowed * (_BIT_NS_PER_BYTE_S / step_ns)), limits)
            rates = self._share(live, limits)
            table.rate[live] = rates
            self._converged = not _differ(rates, before)
            if self._converged:
                return
            before = rates

    def _share(self, live: Ints, limits: Floats) -> Floats:
        table = self.table
        paths, nic = table.path[live], table.path[live, 0]
        capacity = self._carried_bps(live, limits)
        links, weights = len(capacity), self._weights(live)
        paced = np.flatnonzero(table.paced[live])  # cross traffic passes by HTB
        classes = nic[paced]
        crowded = np.bincount(classes, limits[paced], links) > capacity
        crowded &= np.bincount(classes, minlength=links) > 1
        on_crowded = paced[crowded[classes]]
        if not len(on_crowded):
            return max_min(paths, limits, capacity, weights)
        wanted = limits.copy()
        firm = table.firm[live[on_crowded]]
        rates = wanted
        for _ in range(1 if self.step_ns() >= COARSE_STEP_NS else HTB_ROUNDS):
            allowed = wanted.copy()
            allowed[on_crowded] = htb(wanted[on_crowded], firm, nic[on_crowded], table.capacity_bps)
            rates = max_min(paths, allowed, capacity, weights)
            # A flow the network holds below its share of the NIC leaves the rest to its neighbours there.
            got, most = rates[on_crowded], np.minimum(allowed, wanted)[on_crowded]
            held = on_crowded[got < most * (1 - 1e-9)]
            if not len(held):
                break
            wanted[held] = rates[held]
        return rates

    def _sent_in_iteration(self, rows: Ints) -> Floats:
        table = self.table
        sent: Floats = table.sent[rows] - table.goal[rows] + table.size[rows]
        return sent

    def _piece(self, rows: Ints) -> Floats:
        """Which of its iteration each flow is sending."""
        return np.floor((self._sent_in_iteration(rows) + CAUGHT_UP_BYTES) / self.table.piece[rows])

    def _weights(self, live: Ints) -> Floats | None:
        """MLTCP's (flowcore/allocation/aggressiveness.py), or for how many each stands; None: all have the same."""
        table = self.table
        weights: Floats = table.stands[live]
        if table.aggressiveness is None:
            return weights if (weights != 1.0).any() else None
        weighted = np.flatnonzero(table.piece[live])
        rows = live[weighted]
        part = (self._piece(rows) + 0.5) * table.piece[rows] / table.size[rows]
        slope, intercept = table.aggressiveness
        weights[weighted] = slope * np.minimum(part, 1.0) + intercept
        return weights

    def _carried_bps(self, live: Ints, limits: Floats) -> Floats:
        """What each link carries, less what the jobs that send over it now lose by colliding."""
        table = self.table
        if not table.contention:
            return table.capacity_bps
        sending = live[limits > 0.0]
        pairs = np.unique(table.path[sending] * (int(table.job.max()) + 2) + table.job[sending, None] + 1)
        jobs = np.bincount(pairs // (int(table.job.max()) + 2), minlength=len(table.capacity_bps))
        carried_bps: Floats = contended_bps(table.capacity_bps, np.maximum(jobs, 1), table.contention)
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

"""What a switch has seen of one job: since when a burst of it waits or goes, and how long its iterations take.

Times are the switch's own. A cycle is from the moment a burst may begin to the moment the next one is ready: what the
job needs for an iteration when it is never held. Only cycles count whose burst had its links to itself, and of the last
few the median, so that neither a collision nor a straggler makes the job look slower than it is. Before there is one,
what the job's hosts say is believed: its computing, and its burst alone.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median

from paceline.flowcore.allocation.arbiters import BEGUN, Contender
from paceline.flowcore.allocation.shifts.drift import slack
from paceline.flowcore.allocation.shifts.footprint import Footprint
from paceline.flowcore.messages.reports import Bid

CYCLES = 15  # remembered
FEWEST_CYCLES = 3  # to say how much they differ
BETTER_KNOWN = (1, FEWEST_CYCLES, CYCLES)  # with so many, times are planned anew even if they have moved little
NORMAL = 1.4826  # median deviations of a normal distribution in its standard deviation
SIGMAS = 1.0  # of its computing, by which an iteration is given longer: little is lost by being late (timetable.py)
MOST_SLACK = 0.25  # a job that would need more is not timed: it would lose more than it could gain

# A claim that comes sooner after the last one, in parts of the computing, or with less left, in parts of a burst, is
# the rest of a burst: a host withdraws a round trip before the end, and claims again if that was too soon.
SHORTEST_REST = 0.5
LEAST_BURST = 0.5

# A job that iterates faster is nothing to be timed, and its host has made a mistake or the numbers up.
LEAST_CYCLE_NS, LEAST_SENDS_NS = 1_000_000, 1_000

# What a job needs may differ by so much from what it is given, and its burst by so much of an iteration, before times
# are planned anew. Upwards there is little room: a job that cannot keep up is late at last, and waits for another time.
MOST_NEEDED, LEAST_NEEDED, BURST_MOVED = 1.02, 0.95, 0.05

# A job that has missed its time so often, or that misses it more than once in five bursts, does not fit, whatever was
# measured; it is not timed for UNFIT_BURSTS. Else jobs that meet make each other late for ever, and wait for most of an
# iteration in turn.
MOST_MISSED = 3.0
FORGIVEN = 0.25  # by a burst on time
UNFIT_BURSTS = 32


class SeenJob:
    def __init__(self, now_ns: int) -> None:
        self.links: frozenset[str] = frozenset()  # it has crossed
        self.left_ns: int | None = now_ns  # since when it claims nothing; None: it does
        self.begun_ns: int | None = None  # when a burst of it was last let go
        self.ready_ns = now_ns  # since when the burst in hand waits, or waited
        self.until_ns: int | None = None  # it is held until then
        self.going = False
        self.footprint: Footprint | None = None  # as planned with; None: too little is known
        self.missed = 0.0  # its time, so often of late
        self._unfit = 0  # for so many more bursts
        self._rested_ns: int | None = None  # before the claims in hand; None: that was taken note of
        self._sends_ns = 0.0  # its burst alone
        self._flows_on: dict[str, int] = {}  # in the burst in hand
        self._whole = False  # the burst in hand was seen from its beginning ...
        self._met = False  # ... and met others on full links
        self._cycles_ns: deque[int] = deque(maxlen=CYCLES)

    @property
    def sending(self) -> bool:
        return self.going and self.left_ns is None

    # ---- Its claims come and go ----

    def claims(self, links: Iterable[str], now_ns: int) -> None:
        self.links = self.links.union(links)
        if self.left_ns is not None:
            self._rested_ns, self.left_ns = now_ns - self.left_ns, None

    def leaves(self, now_ns: int) -> None:
        if self.left_ns is None:
            self.left_ns, self.until_ns = now_ns, None

    # ---- Its bursts ----

    def look(self, member: Contender, capacity_bps: Mapping[str, float], given_ms: float | None, now_ns: int) -> bool:
        """Before a division. True if what was planned with does not fit any more; `given_ms`: for an iteration."""
        moved = False
        rested_ns, self._rested_ns = self._rested_ns, None
        if member.bid.urgency >= BEGUN:
            if rested_ns is not None and not self.going:  # begun elsewhere, or before this switch was there
                self._whole = False
            self.going = True
        elif rested_ns is not None and self._is_new(member.bid, rested_ns):
            moved = self._ready(member.bid, capacity_bps, given_ms, now_ns)
        self._sends_ns = max(self._sends_ns, member.bid.remaining_ns)  # its first claim may know of a part only
        for link, flows in member.flows_on.items():
            self._flows_on[link] = max(flows, self._flows_on.get(link, 0))
        return moved

    def wait(self, now_ns: int, wait_ns: int, every_ns: int) -> None:
        """Until it is due, and never longer than one iteration in all."""
        self.until_ns = min(now_ns + wait_ns, self.ready_ns + every_ns)
        if now_ns == self.ready_ns:  # not again when it is planned anew
            self.missed = self.missed + 1.0 if 2 * wait_ns > every_ns else max(0.0, self.missed - FORGIVEN)

    def go(self, now_ns: int) -> None:
        self.going, self.begun_ns, self.until_ns = True, now_ns, None

    def meets_others(self) -> None:
        self._met = True

    def _is_new(self, bid: Bid, rested_ns: int) -> bool:
        rest = rested_ns < SHORTEST_REST * bid.compute_ns or bid.remaining_ns < LEAST_BURST * self._sends_ns
        return self.begun_ns is None or not rest

    def _ready(self, bid: Bid, capacity_bps: Mapping[str, float], given_ms: float | None, now_ns: int) -> bool:
        """A burst waits; learn from the one before."""
        moved = False
        if self._whole and self.begun_ns is not None:
            known = len(self._cycles_ns)
            if not self._met:
                self._cycles_ns.append(now_ns - self.begun_ns)
            if self.missed >= MOST_MISSED:
                self.missed, self._unfit = 0.0, UNFIT_BURSTS
            found = None if self._unfit else self._measured(bid, capacity_bps)
            self._unfit = max(0, self._unfit - 1)
            better_known = len(self._cycles_ns) != known and len(self._cycles_ns) in BETTER_KNOWN
            moved = _differs(self.footprint, found, given_ms) or (better_known and found is not None)
            if moved:
                self.footprint = found
        self.ready_ns, self.going, self.until_ns = now_ns, False, None
        self._whole, self._met, self._flows_on = True, False, {}
        self._sends_ns = bid.remaining_ns
        return moved

    # ---- What it needs ----

    def _measured(self, bid: Bid, capacity_bps: Mapping[str, float]) -> Footprint | None:
        flows_on = {link: flows for link, flows in self._flows_on.items() if link in capacity_bps}
        alone_ns = max(bid.remaining_ns, self._sends_ns)
        if bid.compute_ns <= 0.0 or alone_ns <= 0.0 or not flows_on:
            return None
        cycle_ns = bid.compute_ns + alone_ns
        if self._cycles_ns:
            cycle_ns = median(self._cycles_ns)
        sends_ns = min(cycle_ns, max(cycle_ns - bid.compute_ns, alone_ns))
        if cycle_ns < LEAST_CYCLE_NS or sends_ns < LEAST_SENDS_NS:
            return None
        alone_bps = min(capacity_bps[link] / flows for link, flows in flows_on.items())
        on_link_bits = {link: flows * alone_bps * alone_ns / 1e9 for link, flows in flows_on.items()}
        jitter = self._spread_ns(cycle_ns) / bid.compute_ns
        longer = slack(jitter, bid.compute_ns, cycle_ns, SIGMAS)
        if longer > MOST_SLACK:
            return None
        return Footprint.of((cycle_ns - sends_ns) / 1e9, sends_ns / 1e9, on_link_bits, longer)

    def _spread_ns(self, cycle_ns: float) -> float:
        """The standard deviation of its cycles, but for stragglers."""
        if len(self._cycles_ns) < FEWEST_CYCLES:
            return 0.0
        return NORMAL * median(abs(one - cycle_ns) for one in self._cycles_ns)


def _differs(before: Footprint | None, now: Footprint | None, given_ms: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    had_ms = before.needs_ms if given_ms is None else given_ms
    return (
        before.profiles.keys() != now.profiles.keys()
        or not LEAST_NEEDED * had_ms <= now.needs_ms <= MOST_NEEDED * had_ms
        or abs(now.sends_ms - before.sends_ms) > BURST_MOVED * had_ms
    )

"""Policies with an arbiter, decided for all jobs in one pass.

The rules are flowcore's: the policy's bid and arbiter, borrowing.ceilings, and policy.arbitrated for when a claim
opens, what is enforced and when it is handed over. What the messages of the reference engine do is kept as times: with
d the control latency and h the tier of the lowest switch above all jobs of a group,

    a claim or withdrawal made at t takes part from t + h·d on; what is decided then is in force h·d later

Bids are renewed once per slot, at its start; bid_propagation.py says when which of them are known where. A host-only
policy has no latency. A renewed bid is worked out only when a reallocation reads it, from the counters as they were at
the start of the slot: progress does not depend on how often it is looked at (tests/flowcore/host/test_progress.py).

Cross traffic is not detected here (paceline/flowcore/detect/cross_traffic.py): a trace has none.
"""

from array import array
from collections import deque
from functools import partial
from time import perf_counter_ns

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.host.policy import Policy
from paceline.flowcore.messages.events import FLOOR_BPS
from paceline.flowcore.policy.arbitrated import Arbitrated, enforced, through_within, too_short
from paceline.flowcore.switch.agent import REALLOCATIONS_PER_SLOT
from paceline.sim.array.bid_propagation import BidPropagation
from paceline.sim.array.claims import Claims, ContenderState, Counters, Held, HostPart
from paceline.sim.array.control import NEVER_NS, Action, ControlContext, NetworkJob
from paceline.sim.array.settlement import Settlement
from paceline.sim.kernel.steps import CROWD

# Where many jobs meet, a reallocation takes a switch this long per job; until it is done, the next one waits.
REALLOCATION_NS_PER_JOB = 200_000
JOBS_AT_NO_COST = 8

# The newest bid that has arrived is from one of so many slots: three tiers take a slot and a bit.
SLOTS_ON_THE_WAY = 3

# What this control does in a policy's place.
HOOKS = ("on_ready", "on_done", "on_slot", "on_boundary", "on_feedback", "on_tick", "next_deadline")


def decides(policy: Policy) -> bool:
    """Whether this control does what the policy's own hooks would do."""
    kept = (getattr(type(policy), hook) is getattr(Arbitrated, hook) for hook in HOOKS)
    return isinstance(policy, Arbitrated) and all(kept)


class ArbitratedControl:
    def __init__(self, context: ControlContext) -> None:
        self._policy, self._clock, self._network = context.policy, context.clock, context.network
        self._latency_ns, self._at = context.latency_ns, context.at
        self.decisions_ns: array[int] = array("q")
        self._claims = Claims(context.network, context.policy, context.latency_ns)
        links = context.network.link_index.items()
        capacity_bps = {name: float(context.network.capacity_bps[index]) for name, index in links}
        assert context.policy.arbiter is not None
        self._settlement = Settlement(self._claims, context.policy.arbiter, capacity_bps)
        self._reallocate_ns = self._tick_ns = NEVER_NS
        self._busy_until_ns = 0
        self._half_slot_ns = context.clock.length_ns // REALLOCATIONS_PER_SLOT
        self._slots: deque[Counters] = deque(maxlen=SLOTS_ON_THE_WAY)  # newest first
        topology, epoch_ns = context.network.topology, context.clock.epoch_ns
        self._bids = BidPropagation(topology, context.latency_ns, self._half_slot_ns, epoch_ns)

    # ---- What happens ----

    def joined(self, job: NetworkJob, now_ns: int) -> None:
        self._claims.join(job, now_ns)

    def left(self, job: NetworkJob, now_ns: int) -> None:
        self._settlement.forget({part.contender.name for part in self._claims.parts_of_job[job.index]})
        self._claims.leave(job)
        self._reallocate_soon(now_ns)

    def ready(self, job: NetworkJob, numbers: list[int], iteration: int, now_ns: int) -> None:
        claims, network = self._claims, self._network
        claims.stamp[numbers] += 1
        claims.grant(numbers, 0.0)
        claims.release(numbers, 0)
        network.limit(np.array(numbers), FLOOR_BPS, network.capacity_bps[network.path[numbers, 0]])
        for part in dict.fromkeys(claims.part_of(number) for number in numbers):
            part.ready_ns = now_ns
            part.progress.compute_ended(now_ns)
            self._claim(part, [number for number in numbers if number in part.numbers], now_ns)

    def done(self, job: NetworkJob, number: int, now_ns: int) -> None:
        self._claims.grant(number, 0.0)
        if self._claims.claimed[number]:
            self._withdraw([number], now_ns)

    def iteration_ended(self, job: NetworkJob, host: str, now_ns: int) -> None:
        for part in self._claims.parts_of_job[job.index]:
            if part.host == host:
                part.credit(self._sum(self._network.sent, part), now_ns)
                part.progress.iteration_ended(now_ns, 0.0)

    def _sum(self, column: Floats, part: HostPart) -> float:
        return float(sum(column[number] for number in part.numbers))

    def _left(self, part: HostPart) -> float:
        network = self._network
        return float(sum(max(network.goal[number] - network.sent[number], 0.0) for number in part.numbers))

    # ---- Claims ----

    def _claim(self, part: HostPart, numbers: list[int], now_ns: int) -> None:
        network, claims, delay_ns = self._network, self._claims, part.contender.delay_ns
        # A host learns of its flows one after the other: it bids for each with what is ready by then. Only before the
        # first iteration none of them is through.
        sent, left = self._sum(network.sent, part), self._left(part)
        for number in reversed(numbers):
            part.bid([number], sent, left, self._policy, now_ns)
            left -= float(network.size[number]) if network.sent[number] else 0.0
        stamps = claims.stamp[numbers].tolist()
        self._bids.changed(part.tor, delay_ns, claims.passes(numbers), now_ns)

        def arrive() -> None:
            pairs = zip(numbers, stamps, strict=True)
            fresh = [n for n, stamp in pairs if claims.stamp[n] == stamp and network.live[n]]
            if fresh:
                claims.enter(fresh)
                self._reallocate_soon(now_ns + delay_ns)

        self._after(delay_ns, now_ns, arrive)

    def _withdraw(self, numbers: list[int], now_ns: int) -> None:
        claims = self._claims
        part = claims.part_of(numbers[0])
        delay_ns = part.contender.delay_ns
        stamps = claims.stamp[numbers].tolist()
        self._bids.changed(part.tor, delay_ns, claims.passes(numbers), now_ns)

        def arrive() -> None:
            pairs = zip(numbers, stamps, strict=True)
            gone = [n for n, stamp in pairs if claims.stamp[n] == stamp and claims.claimed[n]]
            if gone:
                claims.withdraw(gone)
                self._reallocate_soon(now_ns + delay_ns)

        self._after(delay_ns, now_ns, arrive)

    def _after(self, delay_ns: int, now_ns: int, action: Action) -> None:
        if delay_ns:
            self._at(now_ns + delay_ns, action)
        else:
            action()

    def _reallocate_soon(self, when_ns: int) -> None:
        self._reallocate_ns = min(self._reallocate_ns, max(when_ns, self._busy_until_ns))
        if self._tick_ns == NEVER_NS:
            self._arm(when_ns)

    def _arm(self, now_ns: int) -> None:
        """The next half slot; where no jobs meet, renewed bids decide nothing, and the next slot will do."""
        every_ns = self._half_slot_ns if self._settlement.several else self._clock.length_ns
        self._tick_ns = now_ns + every_ns - (now_ns - self._clock.epoch_ns) % every_ns

    # ---- Time ----

    def next_ns(self) -> int:
        return min(self._reallocate_ns, self._tick_ns, self._next_release_ns())

    def _next_release_ns(self) -> int:
        """Looked for only where steps may be long."""
        held = self._claims.may_be_handed_over()
        if not 0 < len(held.flows) <= CROWD:
            return NEVER_NS
        wait_ns = self._left_of(held) * 8e9 / held.share_bps - held.rtt_ns
        return self._network.now_ns + max(1, int(wait_ns.min()))

    def _left_of(self, held: Held) -> Floats:
        left: Floats = self._network.goal[held.flows] - self._network.sent[held.flows]
        return left

    def run(self, now_ns: int) -> None:
        self._release(now_ns)
        if now_ns >= self._tick_ns:
            self._tick(now_ns)
        if now_ns >= self._reallocate_ns:
            self._reallocate(now_ns)

    def _release(self, now_ns: int) -> None:
        """Hand over: a flow that will be through within a round trip withdraws."""
        held = self._claims.may_be_handed_over()
        if len(held.flows):
            ending = through_within(held.rtt_ns, self._left_of(held), held.share_bps)
            if ending.any():
                for number in held.flows[ending].tolist():
                    self._claims.release(number, now_ns)
                    self._withdraw([number], now_ns)

    def _tick(self, now_ns: int) -> None:
        """At the start of a slot bids are renewed, and a flow that is not through as predicted claims again. Every half
        slot some tier of switches reallocates by what has been renewed."""
        claims, network = self._claims, self._network
        into_slot_ns = (now_ns - self._clock.epoch_ns) % self._clock.length_ns
        if into_slot_ns < self._half_slot_ns:
            late = network.live & (claims.released_ns > 0) & (now_ns - claims.released_ns >= claims.rtt_ns)
            for number in np.flatnonzero(late).tolist():
                claims.grant(number, 0.0)
                claims.release(number, 0)
                self._claim(claims.part_of(number), [number], now_ns)
            self._renew(now_ns)
        if self._settlement.several:
            self._reallocate_soon(now_ns)
        if claims.contending or network.live.any():
            self._arm(now_ns)
        else:
            self._tick_ns = NEVER_NS

    def _renew(self, now_ns: int) -> None:
        claims, network = self._claims, self._network
        flows = np.flatnonzero(claims.part >= 0)
        owner = claims.part[flows]
        sent = np.bincount(owner, network.sent[flows]).tolist()
        self._slots.appendleft(Counters(now_ns, sent, np.bincount(owner, network.remaining[flows]).tolist()))

    def _read_bids(self, contender: ContenderState, now_ns: int) -> bool:
        """As the arbiter knows them by now; whether one of them is news."""
        news = False
        for part in contender.parts:
            if part.claimed:
                until_ns = self._bids.heard_ns(part.tor, contender.delay_ns, now_ns)
                counters = next((slot for slot in self._slots if slot.taken_ns <= until_ns), None)
                if counters is not None and part.bid_ns < counters.taken_ns:
                    index = part.index
                    sent, left = counters.sent[index], counters.remaining[index]
                    news |= part.bid(part.bids, sent, left, self._policy, counters.taken_ns)
        return news

    # ---- Reallocation ----

    def _reallocate(self, now_ns: int) -> None:
        claims = self._claims
        self._reallocate_ns = NEVER_NS
        states = list(claims.contending.values())
        self._busy_until_ns = now_ns + REALLOCATION_NS_PER_JOB * max(0, len(states) - JOBS_AT_NO_COST)
        started_ns = perf_counter_ns()
        met = self._settlement.several
        renewed = {state.name for state in states if self._read_bids(state, now_ns)}
        decided = self._settlement.settle(states, renewed)
        self.decisions_ns.append(perf_counter_ns() - started_ns)
        if self._settlement.several and not met:
            self._arm(now_ns)
        for level, flows, share, ceiling in decided:
            delay_ns = level * self._latency_ns
            for part in dict.fromkeys(map(claims.part_of, flows.tolist())):
                if part.contender.delay_ns != delay_ns:
                    part.contender.delay_ns = delay_ns
                    claims.rtt_ns[part.contender.numbers] = 2 * delay_ns
                    claims.held = None
            self._after(delay_ns, now_ns, partial(self._enforce, flows, share, ceiling, claims.stamp[flows]))

    def _enforce(self, flows: Ints, share: Floats, ceiling: Floats, stamp: Ints) -> None:
        claims, network = self._claims, self._network
        valid = (claims.stamp[flows] == stamp) & network.live[flows]
        if not valid.all():
            flows, share, ceiling = flows[valid], share[valid], ceiling[valid]
        nic_bps = network.capacity_bps[network.path[flows, 0]]
        short = too_short(claims.alone_ns[flows], claims.rtt_ns[flows])
        claims.grant(flows, share)
        claims.tell(flows)
        network.limit(flows, *enforced(share, ceiling, nic_bps, short))

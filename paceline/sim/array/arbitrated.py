"""Policies with an arbiter, decided for all jobs in one pass.

The rules are flowcore's: the policy's bid and arbiter, borrowing.ceilings, and policy.arbitrated for when a claim
opens, what is enforced and when it is handed over. What the messages of the reference engine do is kept as times: with
d the control latency and h the tier of the lowest switch above all jobs of a group,

    a claim or withdrawal made at t takes part from t + h·d on; what is decided then is in force h·d later

Bids are renewed once per slot, at its start; renewals.py says when which of them are known where. A host-only policy
has no latency. A renewed bid is worked out only when a settlement reads it, from the counters as they were at the start
of the slot: progress does not depend on how often it is looked at (tests/flowcore/host/test_progress.py).

Nobody looks for strangers here (paceline/flowcore/detect/cross_traffic.py): in a trace there are none.
"""

from array import array
from collections import deque
from time import perf_counter_ns

import numpy as np

from paceline.flowcore.allocation.arbiters import groups
from paceline.flowcore.allocation.borrowing import Floats, Ints, ceilings
from paceline.flowcore.messages.events import FLOOR_BPS
from paceline.flowcore.policy.arbitrated import enforced, through_within, too_short
from paceline.flowcore.switch.agent import SETTLES_PER_SLOT
from paceline.sim.array.bid_propagation import Renewals
from paceline.sim.array.claims import Claims, Counters, Team, Unit
from paceline.sim.array.control import NEVER_NS, Member, Surroundings
from paceline.sim.array.network import CROWD

# Where many jobs meet, a settlement takes a switch this long per job; while it is at it, news wait.
SETTLE_NS_PER_JOB = 200_000
AT_ONCE = 8  # jobs settled in no time

# The newest that has arrived is among these: three tiers take a slot and a bit.
SLOTS_ON_THE_WAY = 3


class ArbitratedControl:
    def __init__(self, around: Surroundings) -> None:
        self._policy, self._clock, self._network = around.policy, around.clock, around.network
        self._latency_ns, self._at = around.latency_ns, around.at
        self.decisions_ns = array("q")
        self._claims = Claims(around.network, around.policy, around.latency_ns)
        links = around.network.link_index.items()
        self._capacity_bps = {name: float(around.network.capacity_bps[index]) for name, index in links}
        self._settle_ns = self._tick_ns = NEVER_NS
        self._busy_until_ns = 0
        self._half_slot_ns = around.clock.length_ns // SETTLES_PER_SLOT
        self._slots: deque[Counters] = deque(maxlen=SLOTS_ON_THE_WAY)  # newest first
        self._renewals = Renewals(around.network.topology, around.latency_ns, around.at)

    # ---- What happens ----

    def joined(self, member: Member, now_ns: int) -> None:
        self._claims.join(member, now_ns)

    def left(self, member: Member, now_ns: int) -> None:
        self._claims.leave(member)
        self._settle_soon(now_ns)

    def ready(self, member: Member, numbers: list[int], iteration: int, now_ns: int) -> None:
        claims, network = self._claims, self._network
        claims.stamp[numbers] += 1
        claims.share[numbers] = claims.released_ns[numbers] = 0
        network.limit(np.array(numbers), FLOOR_BPS, network.capacity_bps[network.path[numbers, 0]])
        for unit in dict.fromkeys(claims.unit_of(number) for number in numbers):
            unit.ready_ns = now_ns
            unit.progress.compute_ended(now_ns)
            self._claim(unit, [number for number in numbers if number in unit.numbers], now_ns)

    def done(self, member: Member, number: int, now_ns: int) -> None:
        self._claims.share[number] = 0.0
        if self._claims.claimed[number]:
            self._withdraw([number], now_ns)

    def iteration_ended(self, member: Member, host: str, now_ns: int) -> None:
        for unit in self._claims.of_member[member.index]:
            if unit.host == host:
                unit.credit(self._sum(self._network.sent, unit), now_ns)
                unit.progress.iteration_ended(now_ns, 0.0)

    def _sum(self, column: Floats, unit: Unit) -> float:
        return float(sum(column[number] for number in unit.numbers))

    # ---- Claims ----

    def _claim(self, unit: Unit, numbers: list[int], now_ns: int) -> None:
        network, claims, delay_ns = self._network, self._claims, unit.team.delay_ns
        # A host learns of its flows one after the other: it bids for each with what is ready by then. Only before the
        # first iteration none of them is through.
        sent, left = self._sum(network.sent, unit), self._sum(network.remaining, unit)
        for number in reversed(numbers):
            unit.bid([number], sent, left, self._policy, now_ns)
            left -= float(network.size[number]) if network.sent[number] else 0.0
        stamps = claims.stamp[numbers].tolist()
        self._renewals.changed(unit.tor, delay_ns, claims.passes(numbers), now_ns)

        def arrive() -> None:
            pairs = zip(numbers, stamps, strict=True)
            fresh = [n for n, stamp in pairs if claims.stamp[n] == stamp and network.live[n]]
            if fresh:
                claims.enter(fresh)
                self._settle_soon(now_ns + delay_ns)

        self._after(delay_ns, now_ns, arrive)

    def _withdraw(self, numbers: list[int], now_ns: int) -> None:
        claims = self._claims
        unit = claims.unit_of(numbers[0])
        delay_ns = unit.team.delay_ns
        stamps = claims.stamp[numbers].tolist()
        self._renewals.changed(unit.tor, delay_ns, claims.passes(numbers), now_ns)

        def arrive() -> None:
            pairs = zip(numbers, stamps, strict=True)
            gone = [n for n, stamp in pairs if claims.stamp[n] == stamp and claims.claimed[n]]
            if gone:
                claims.withdraw(gone)
                self._settle_soon(now_ns + delay_ns)

        self._after(delay_ns, now_ns, arrive)

    def _after(self, delay_ns: int, now_ns: int, action) -> None:
        if delay_ns:
            self._at(now_ns + delay_ns, action)
        else:
            action()

    def _settle_soon(self, when_ns: int) -> None:
        self._settle_ns = min(self._settle_ns, max(when_ns, self._busy_until_ns))
        if self._tick_ns == NEVER_NS:
            self._arm(when_ns)

    def _arm(self, now_ns: int) -> None:
        """The next half slot."""
        self._tick_ns = now_ns + self._half_slot_ns - (now_ns - self._clock.epoch_ns) % self._half_slot_ns

    # ---- Time ----

    def next_ns(self) -> int:
        return min(self._settle_ns, self._tick_ns, self._next_release_ns())

    def _next_release_ns(self) -> int:
        """Looked for only where steps may be long."""
        claims, network = self._claims, self._network
        if network.sending > CROWD:
            return NEVER_NS
        held = self._held()
        left = network.goal[held] - network.sent[held]
        wait_ns = left * 8e9 / claims.share[held] - claims.rtt_ns[held]
        return network.now_ns + max(1, int(wait_ns.min())) if len(held) else NEVER_NS

    def _held(self) -> Ints:
        claims = self._claims
        handed_over = claims.rtt_ns > 0  # on a host by itself nothing has to be handed over ahead of time
        return np.flatnonzero(claims.claimed & (claims.share > 0.0) & (claims.released_ns == 0) & handed_over)

    def run(self, now_ns: int) -> None:
        self._release(now_ns)
        if now_ns >= self._tick_ns:
            self._tick(now_ns)
        if now_ns >= self._settle_ns:
            self._settle(now_ns)

    def _release(self, now_ns: int) -> None:
        """Hand over: who will be through within a round trip withdraws."""
        claims, network = self._claims, self._network
        held = self._held()
        if len(held):
            left = network.goal[held] - network.sent[held]
            for number in held[through_within(claims.rtt_ns[held], left, claims.share[held])].tolist():
                claims.released_ns[number] = now_ns
                self._withdraw([number], now_ns)

    def _tick(self, now_ns: int) -> None:
        """At the start of a slot bids are renewed, and who is not through as predicted claims again. Every half slot
        some tier of switches settles what has been renewed."""
        claims, network = self._claims, self._network
        into_slot_ns = (now_ns - self._clock.epoch_ns) % self._clock.length_ns
        if into_slot_ns < self._half_slot_ns:
            late = network.live & (claims.released_ns > 0) & (now_ns - claims.released_ns >= claims.rtt_ns)
            for number in np.flatnonzero(late).tolist():
                claims.released_ns[number] = claims.share[number] = 0
                self._claim(claims.unit_of(number), [number], now_ns)
            self._renew(now_ns)
        self._renewals.half_slot(now_ns)
        if claims.teams:
            self._settle_soon(now_ns)
        if claims.teams or network.live.any():
            self._arm(now_ns)
        else:
            self._tick_ns = NEVER_NS

    def _renew(self, now_ns: int) -> None:
        claims, network = self._claims, self._network
        flows = np.flatnonzero(claims.unit >= 0)
        owner = claims.unit[flows]
        sent = np.bincount(owner, network.sent[flows]).tolist()
        self._slots.appendleft(Counters(now_ns, sent, np.bincount(owner, network.remaining[flows]).tolist()))

    def _read_bids(self, team: Team, now_ns: int) -> None:
        """As the arbiter knows them by now."""
        for unit in team.units:
            if unit.claimed:
                until_ns = self._renewals.heard_ns(unit.tor, team.delay_ns, now_ns)
                counters = next((slot for slot in self._slots if slot.taken_ns <= until_ns), None)
                if counters is not None and unit.bid_ns < counters.taken_ns:
                    index = unit.index
                    sent, left = counters.sent[index], counters.remaining[index]
                    unit.bid(unit.bids, sent, left, self._policy, counters.taken_ns)

    # ---- Reallocation ----

    def _settle(self, now_ns: int) -> None:
        claims = self._claims
        self._settle_ns = NEVER_NS
        teams = list(claims.teams.values())
        self._busy_until_ns = now_ns + SETTLE_NS_PER_JOB * max(0, len(teams) - AT_ONCE)
        if not teams:
            return
        started_ns = perf_counter_ns()
        for team in teams:
            self._read_bids(team, now_ns)
        contenders = [claims.contender(team) for team in teams]
        rate_of = np.zeros(max(claims.units) + 1)
        arbiter, capacity_bps = self._policy.arbiter, self._capacity_bps
        assert arbiter is not None
        for group in groups(contenders):
            members = [contenders[index] for index in group]
            # Nobody is held back but by a full link, whoever arbitrates.
            alone = len(group) == 1
            rates = [members[0].alone_bps(capacity_bps)] if alone else arbiter(members, capacity_bps)
            delay_ns = max(teams[index].level for index in group) * self._latency_ns
            for index, rate in zip(group, rates, strict=True):
                if teams[index].delay_ns != delay_ns:
                    teams[index].delay_ns = delay_ns
                    claims.rtt_ns[teams[index].numbers] = 2 * delay_ns
                for unit in teams[index].units:
                    rate_of[unit.index] = rate
        flows = np.flatnonzero(claims.claimed)
        share = rate_of[claims.unit[flows]]
        owners = claims.host[flows], self._network.job[flows]
        ceiling, _ = ceilings(share, claims.seen[flows], *owners, self._network.capacity_bps)
        self.decisions_ns.append(perf_counter_ns() - started_ns)
        for rtt_ns in np.unique(claims.rtt_ns[flows]).tolist():
            same = np.flatnonzero(claims.rtt_ns[flows] == rtt_ns)
            decision = flows[same], share[same], ceiling[same], claims.stamp[flows[same]]
            self._after(rtt_ns // 2, now_ns, lambda decision=decision: self._enforce(*decision))

    def _enforce(self, flows: Ints, share: Floats, ceiling: Floats, stamp: Ints) -> None:
        claims, network = self._claims, self._network
        valid = (claims.stamp[flows] == stamp) & network.live[flows]
        flows, share, ceiling = flows[valid], share[valid], ceiling[valid]
        nic_bps = network.capacity_bps[network.path[flows, 0]]
        short = too_short(claims.alone_ns[flows], claims.rtt_ns[flows])
        claims.share[flows] = share
        claims.tell(flows)
        network.limit(flows, *enforced(share, ceiling, nic_bps, short))

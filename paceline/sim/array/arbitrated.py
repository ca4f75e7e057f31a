"""Policies with an arbiter, decided for all jobs in one pass.

The rules are flowcore's: the policy's bid and arbiter, borrowing.ceilings, policy.arbitrated for when a flow claims,
what is enforced and when it is handed over, detect.stalls for shares that lie unused. What the messages of the
reference engine do is kept as times: with d the control latency and h the tier of the lowest switch above all jobs of a
group,

    a claim or withdrawal made at t takes part from t + h·d on; what is decided then is in force h·d later

Bids are renewed once per slot, at its start; bid_propagation.py says when which of them are known where. A host-only
policy has no latency. A renewed bid is worked out only when a reallocation reads it, from the counters as they were at
the start of the slot: progress does not depend on how often it is looked at (tests/flowcore/host/test_progress.py).

Cross traffic is not detected here (paceline/flowcore/detect/cross_traffic.py): where there is some, a policy that
yields to it runs in the agents (engine.py). Nor is there a ledger (paceline/flowcore/switch/ledger.py): hosts of a
simulator do not lie.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from functools import partial
from time import perf_counter_ns

from paceline.flowcore.detect.stalls import LEAST_SHARE_BPS
from paceline.flowcore.host.flow_phase import Phase
from paceline.flowcore.host.policy import Policy
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.policy.arbitrated import (
    Arbitrated,
    asks,
    before_grant,
    contends,
    enforced,
    enforced_ceilings,
    handover_bytes,
    lends,
    too_short,
    too_short_many,
)
from paceline.flowcore.switch.agent import REALLOCATIONS_PER_SLOT
from paceline.sim.array.bid_propagation import BidPropagation
from paceline.sim.array.claims import ArrayFlow, Claims, Counters, HostPart
from paceline.sim.array.control import NEVER_NS, Action, ControlContext, NetworkJob
from paceline.sim.array.crowd import CrowdBids, bids_for_many
from paceline.sim.array.settlement import CrowdDecisions, Decision, Group, Settlement

# Where many jobs meet, a reallocation takes a switch this long per job; until it is done, the next one waits.
REALLOCATION_NS_PER_JOB = 200_000
JOBS_AT_NO_COST = 8

# The newest bid that has arrived is from one of so many slots: three tiers take a slot and a bit.
SLOTS_ON_THE_WAY = 3


def decides(policy: Policy) -> bool:
    """Whether this control does what the policy does: of what an arbitrated policy does, it overrides nothing but what
    this control asks it for."""
    if not isinstance(policy, Arbitrated) or policy.arbiter is None:
        return False
    asked = {"bid", "sees", "arbiter"}
    methods = {name for one in (Arbitrated, Policy) for name, value in vars(one).items() if callable(value)}
    return all(getattr(type(policy), name) is getattr(Arbitrated, name) for name in methods - asked)


class ArbitratedControl:
    def __init__(self, context: ControlContext) -> None:
        assert isinstance(context.policy, Arbitrated)
        assert context.policy.arbiter is not None
        self._policy, self._clock, self._network = context.policy, context.clock, context.network
        self._latency_ns, self._at, self._slot_ns = context.latency_ns, context.at, context.clock.length_ns
        self.decisions_ns: array[int] = array("q")
        self._claims = Claims(context.network, context.policy, context.latency_ns)
        capacity_bps, links_bps = self._claims.capacity_bps, context.network.capacity_bps
        self._settlement = Settlement(context.policy.arbiter, capacity_bps, links_bps, self._claims.columns)
        self._crowd = CrowdBids(self._claims, context.policy) if bids_for_many(context.policy) else None
        self._reallocate_ns = self._tick_ns = NEVER_NS
        self._busy_until_ns = 0
        self._half_slot_ns = context.clock.length_ns // REALLOCATIONS_PER_SLOT
        self._slots: deque[Counters] = deque([Counters.take(context.network, 0)], SLOTS_ON_THE_WAY)  # newest first
        self._promised: dict[int, ArrayFlow] = {}  # by row: flows with a share in this slot
        self._unclaimed: dict[int, ArrayFlow] = {}  # by row: flows that may claim with the next slot's report
        topology, epoch_ns = context.network.topology, context.clock.epoch_ns
        self._bids = BidPropagation(topology, context.latency_ns, self._half_slot_ns, epoch_ns)

    @property
    def peak_ratio(self) -> float:
        """The largest part of a link that shares took, where few jobs met."""
        return self._settlement.peak_ratio

    # ---- What happens ----

    def joined(self, job: NetworkJob, now_ns: int) -> None:
        self._claims.join(job, now_ns)

    def left(self, job: NetworkJob, now_ns: int) -> None:
        claims, settlement = self._claims, self._settlement
        for number in job.numbers.tolist():
            self._promised.pop(number, None)
            self._unclaimed.pop(number, None)
        names = {part.contender.name for part in claims.parts_of_job[job.index].values()}
        for flow in claims.leave(job):
            settlement.withdraw(flow)
        settlement.forget(names)
        self._reallocate_soon(now_ns)

    def ready(self, job: NetworkJob, numbers: list[int], iteration: int, now_ns: int) -> None:
        sent, asking = self._network.cells.sent, dict[HostPart, list[ArrayFlow]]()
        for number in numbers:
            flow = self._claims.flows[number]
            part = flow.part
            flow.begin(sent[number], now_ns)
            part.progress.compute_ended(now_ns)
            asked = asks(part.progress.alone_comm_ns, part.rtt_ns, self._slot_ns)
            self._limit(flow, *before_grant(asked, flow.nic_bps), now_ns)
            if asked:
                asking.setdefault(part, []).append(flow)
            else:
                self._unclaimed[number] = flow
        for part, flows in asking.items():
            self._claim(part, flows, now_ns)
        if self._tick_ns == NEVER_NS:
            self._arm(now_ns)

    def done(self, job: NetworkJob, number: int, now_ns: int) -> None:
        flow = self._claims.flows[number]
        flow.all_sent()
        self._unclaimed.pop(number, None)
        if flow.claimed:
            self._withdraw(flow, now_ns)

    def iteration_ended(self, job: NetworkJob, host: str, now_ns: int) -> None:
        part = self._claims.parts_of_job[job.index].get(host)
        if part is not None:
            self._credit(part, now_ns)
            part.progress.iteration_ended(now_ns, 0.0)

    def _credit(self, part: HostPart, now_ns: int) -> None:
        cells = self._network.cells
        part.credit(part.sums(cells.sent, cells.goal)[0], now_ns)

    def _limit(self, flow: ArrayFlow, firm_bps: float, ceiling_bps: float, now_ns: int) -> None:
        flow.promise(firm_bps, now_ns, self._slots[0].taken_ns)
        if firm_bps >= LEAST_SHARE_BPS:
            self._promised[flow.number] = flow
        self._network.limit(flow.number, firm_bps, ceiling_bps)

    # ---- Claims ----

    def _claim(self, part: HostPart, flows: Sequence[ArrayFlow], now_ns: int) -> None:
        cells, delay_ns = self._network.cells, part.contender.delay_ns
        # A host learns of its flows one after the other: it bids for each with what is ready by then. Only before the
        # first iteration none of them is through.
        sent, left = part.sums(cells.sent, cells.goal)
        for flow in reversed(flows):
            part.bid([flow], sent, left, self._policy, now_ns)
            flow.claim()
            self._bids.changed(part.tor, delay_ns, flow.passes, now_ns)
            left -= flow.size_bytes if cells.sent[flow.number] else 0.0
        part.columns.cells.bid_ns[part.row] = now_ns
        entries = [(flow, flow.iterations) for flow in flows]
        self._after(delay_ns, now_ns, partial(self._enter, entries, now_ns + delay_ns))

    def _enter(self, flows: Sequence[tuple[ArrayFlow, int]], now_ns: int) -> None:
        live = self._network.cells.live
        fresh = [flow for flow, iteration in flows if flow.iterations == iteration and live[flow.number]]
        for flow in fresh:
            self._settlement.enter(flow)
        if fresh:
            self._reallocate_soon(now_ns)

    def _withdraw(self, flow: ArrayFlow, now_ns: int, *, stalled: bool = False) -> None:
        part = flow.part
        delay_ns = part.contender.delay_ns
        flow.withdraw(now_ns, stalled=stalled)
        self._network.cells.mark[flow.number] = UNLIMITED
        self._bids.changed(part.tor, delay_ns, flow.passes, now_ns)
        self._after(delay_ns, now_ns, partial(self._gone, flow, flow.iterations, now_ns + delay_ns))

    def _gone(self, flow: ArrayFlow, iteration: int, now_ns: int) -> None:
        if flow.iterations == iteration and flow.entered:
            self._settlement.withdraw(flow)
            self._reallocate_soon(now_ns)

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
        every_ns = self._half_slot_ns if self._settlement.several else self._slot_ns
        self._tick_ns = now_ns + every_ns - (now_ns - self._clock.epoch_ns) % every_ns

    # ---- Time ----

    def next_ns(self) -> int:
        return min(self._reallocate_ns, self._tick_ns)

    def happen(self, until_ns: int, sequence: int) -> None:
        """Its events are the engine's."""

    def run(self, now_ns: int, marked: Sequence[int]) -> None:
        for number in marked:  # hand over: it will be through within a round trip
            flow = self._claims.flows.get(number)  # None: its job was stopped within the step
            if flow is not None and flow.phase is Phase.GRANTED:
                self._unclaimed[number] = flow
                self._withdraw(flow, now_ns)
        if now_ns >= self._tick_ns:
            self._tick(now_ns)
        if now_ns >= self._reallocate_ns:
            self._reallocate(now_ns)

    def _tick(self, now_ns: int) -> None:
        """At the start of a slot bids are renewed, a share that lay unused is given up, and a flow that is not through
        as predicted claims again. Every half slot some tier of switches reallocates by what has been renewed."""
        if (now_ns - self._clock.epoch_ns) % self._slot_ns < self._half_slot_ns:
            self._close_slot(now_ns)
            self._claim_again(now_ns)
            self._slots.appendleft(Counters.take(self._network, now_ns))
        if self._settlement.several:
            self._reallocate_soon(now_ns)
        if self._settlement.empty and not self._network.sending:
            self._tick_ns = NEVER_NS
        else:
            self._arm(now_ns)

    def _close_slot(self, now_ns: int) -> None:
        promised, self._promised = self._promised, {}
        if not promised or not self._policy.lends_unused:
            return
        cells, slot, began = self._network.cells, self._clock.index(now_ns) - 1, self._slots[0]
        for number, flow in promised.items():
            if not cells.live[number]:
                continue
            flow.close_slot(slot, began, now_ns, self._slot_ns, cells.sent[number])
            if lends(flow):
                self._credit(flow.part, now_ns)
                flow.stalled_bytes = cells.sent[number]
                self._limit(flow, *before_grant(True, flow.nic_bps), now_ns)
                self._unclaimed[number] = flow
                self._withdraw(flow, now_ns, stalled=True)
            elif flow.firm_bps >= LEAST_SHARE_BPS:
                self._promised[number] = flow

    def _claim_again(self, now_ns: int) -> None:
        cells = self._network.cells
        for number, flow in list(self._unclaimed.items()):
            part = flow.part
            alone_ns = part.progress.alone_comm_ns
            if contends(flow, cells.sent[number], alone_ns, now_ns, part.rtt_ns, self._clock):
                del self._unclaimed[number]
                self._credit(part, now_ns)
                flow.claim_anew()
                self._claim(part, [flow], now_ns)

    def _read_bids(self, group: Group, now_ns: int, heard: dict[tuple[str, int], Counters | None]) -> bool:
        """As the arbiter knows them by now; whether one of them is news. `heard`: what is known of which ToR there."""
        news, newest_ns, all_read = False, self._slots[0].taken_ns, True
        if group.rows is not None and self._crowd is not None:
            known = partial(self._heard, now_ns=now_ns, heard=heard)
            return self._crowd.read(group.rows, newest_ns, known, self._unclaimed.values())
        bid_ns = self._claims.part_columns.cells.bid_ns
        parts = group.parts or [part for state in group.states for part in state.parts_with_claims()]
        for part, claimed in parts:
            if (last_ns := bid_ns[part.row]) >= newest_ns:
                continue  # there is none newer
            counters = self._heard(part.tor, part.contender.delay_ns, now_ns=now_ns, heard=heard)
            if counters is not None and last_ns < counters.taken_ns:
                bid_ns[part.row] = last_ns = counters.taken_ns
                sent, left = part.sums(counters.sent, counters.goal)
                news |= part.bid(claimed, sent, left, self._policy, last_ns)
            all_read &= last_ns >= newest_ns
        if all_read:
            group.read_ns = newest_ns
        return news

    def _heard(
        self, tor: str, delay_ns: int, *, now_ns: int, heard: dict[tuple[str, int], Counters | None]
    ) -> Counters | None:
        place = tor, delay_ns
        if place not in heard:
            until_ns = self._bids.heard_ns(tor, delay_ns, now_ns)
            heard[place] = next((slot for slot in self._slots if slot.taken_ns <= until_ns), None)
        return heard[place]

    # ---- Reallocation ----

    def _reallocate(self, now_ns: int) -> None:
        self._reallocate_ns = NEVER_NS
        started_ns = perf_counter_ns()
        met = self._settlement.several
        read_bids = partial(self._read_bids, now_ns=now_ns, heard={})
        settled = self._settlement.settle(self._slots[0].taken_ns, read_bids)
        self.decisions_ns.append(perf_counter_ns() - started_ns)
        if self._settlement.several and not met:
            self._arm(now_ns)
        jobs = max([len(group.states) for group, _ in settled], default=0)
        self._busy_until_ns = now_ns + REALLOCATION_NS_PER_JOB * max(0, jobs - JOBS_AT_NO_COST)
        for group, decisions in settled:
            delay_ns = group.level * self._latency_ns
            self._moved_to(group, delay_ns)
            self._after(delay_ns, now_ns, partial(self._enforce, decisions, now_ns, now_ns + delay_ns))

    def _moved_to(self, group: Group, delay_ns: int) -> None:
        """Where a group is arbitrated, its claims are heard so much later."""
        for contender in group.states:
            if contender.delay_ns != delay_ns:
                contender.move(delay_ns)
                for flow in contender.entered.values():
                    self._mark(flow)

    def _enforce(self, decisions: Sequence[Decision] | CrowdDecisions, decided_ns: int, now_ns: int) -> None:
        if isinstance(decisions, CrowdDecisions):
            self._enforce_crowd(decisions, decided_ns, now_ns)
            return
        live, slot = self._network.cells.live, self._clock.index(now_ns)
        in_force_ns = self._claims.columns.cells.decided_ns
        for flow, iteration, share_bps, ceiling_bps in decisions:
            number = flow.number
            if flow.iterations != iteration or not live[number] or decided_ns < in_force_ns[number]:
                continue  # the burst is through, or a switch that is nearer has decided since
            in_force_ns[number] = decided_ns
            self._grant(flow, share_bps, ceiling_bps, slot, now_ns)

    def _grant(self, flow: ArrayFlow, share_bps: float, ceiling_bps: float, slot: int, now_ns: int) -> None:
        part = flow.part
        flow.take(share_bps, ceiling_bps, slot)
        if not part.told:
            part.tell()
        short = too_short(part.progress.alone_comm_ns, part.rtt_ns)
        self._limit(flow, *enforced(share_bps, ceiling_bps, flow.nic_bps, short), now_ns)
        self._mark(flow)

    def _enforce_crowd(self, decisions: CrowdDecisions, decided_ns: int, now_ns: int) -> None:
        """The same in arrays; flow by flow only where more than a ceiling is another."""
        columns, network, slot = self._claims.columns, self._network, self._clock.index(now_ns)
        rows = decisions.rows
        valid = (columns.begun[rows] == decisions.begun) & network.live[rows] & (columns.decided_ns[rows] <= decided_ns)
        rows, share_bps, ceiling_bps = rows[valid], decisions.share_bps[valid], decisions.ceiling_bps[valid]
        columns.decided_ns[rows] = decided_ns
        same = columns.granted[rows] == share_bps
        parts, part = self._claims.part_columns, columns.part[rows[same]]
        short = too_short_many(parts.alone_comm_ns[part], 2 * parts.delay_ns[part])
        network.move_ceilings(rows[same], enforced_ceilings(ceiling_bps[same], columns.nic_bps[rows[same]], short))
        others = zip(rows[~same].tolist(), share_bps[~same].tolist(), ceiling_bps[~same].tolist(), strict=True)
        for number, its_share_bps, its_ceiling_bps in others:
            self._grant(self._claims.flows[number], its_share_bps, its_ceiling_bps, slot, now_ns)

    def _mark(self, flow: ArrayFlow) -> None:
        """Where it hands over. On a host by itself nothing has to be handed over ahead of time."""
        cells, rtt_ns = self._network.cells, flow.part.rtt_ns
        left_bytes = handover_bytes(flow.grant, rtt_ns) if rtt_ns and flow.phase is Phase.GRANTED else None
        cells.mark[flow.number] = UNLIMITED if left_bytes is None else cells.goal[flow.number] - left_bytes

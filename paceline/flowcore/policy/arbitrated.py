"""Policies whose current slot is divided by the switch: the host bids, the switch arbitrates, the host enforces.

A flow reports the moment it is ready, not at the next slot, and starts at once: guaranteed nothing, allowed the
line rate, as the paper lets the first packets go (§IV-C). One round trip later its grant arrives:

    rate     = share                     guaranteed; the shares on a link never exceed it
    ceiling  = max(ceiling, floor)       borrowing: what is left over is never left unused

The plan for the K slots is Algorithm 1 over what the path has left, with the share as the current slot's room; the
flows of a host plan one after the other. The switch enters or refuses it; a refused plan is made anew from the
answer, which carries the current loads.

Hand-over. A flow that will be through within one round trip withdraws its claim at once, so that its successor's
grant arrives as its last byte leaves rather than a round trip later. Should the prediction fail, the flow is still
live at the next slot and claims again.

A job that nobody competes with (Grant.uncontended) claims nothing, but for now and then, to be remembered, and from its
next burst on nothing limits it: beside traffic of no job it is one more of TCP's. What it sends concerns nobody.

Where the policy says so, a share that its flow does not use for a slot is lent to other flows: the host withdraws the
claim (detect/stalls.py).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

import numpy as np

from paceline.flowcore.allocation.allocator import allocate
from paceline.flowcore.allocation.borrowing import Bools, Floats, Ints
from paceline.flowcore.host.flow_phase import Phase, PhasedFlow
from paceline.flowcore.host.flow_state import FlowState
from paceline.flowcore.host.policy import REMIND_SLOTS, HostContext, Policy
from paceline.flowcore.messages.events import FLOOR_BPS, SHORTEST_BURST_NS
from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.units import UNLIMITED, rate_bps, transfer_bytes, transfer_ns

# A burst of fewer round trips than this is over before turns can be taken: it asks for none, and TCP shares it out. A
# claim would outlive it and hold other flows back. Found on trees, where the round trip is longest: held to their
# ceilings, bursts of five round trips did worse than under TCP alone.
SHORTEST_BURST_RTTS = 8

# Nor is a flow foreseen to be through sooner than at this many times what it had lately: one that gets a tenth of its
# grant on a link that is always full would be asked ten times whether it is.
MOST_FASTER = 2.0


class Arbitrated(Policy):
    lends_unused: ClassVar[bool] = False  # a share that its flow does not use is lent to others (detect/stalls.py)

    def on_ready(self, host: HostContext, flow: FlowState, now_ns: int) -> None:
        if host.is_left_alone(flow):
            if _reminds(host, flow, now_ns):
                host.report([flow], now_ns)
            return
        asked = asks(_alone_ns(host, flow), host.rtt_ns, host.clock.length_ns)
        host.limit(flow, *before_grant(asked, host.nic_bps))
        if asked:
            host.report([flow], now_ns)

    def on_done(self, host: HostContext, flow: FlowState, now_ns: int) -> None:
        if host.jobs[flow.id.job].uncontended:
            host.report((), now_ns, withdraw=[flow])
            host.limit(flow, UNLIMITED, UNLIMITED)  # while it rests: its packets must not overtake each other
        elif flow.claimed or flow.grant is not None:  # a short burst has neither, and keeps its limit
            # Its guarantee is free again; the first bytes of its next burst will be out before the host knows.
            host.limit(flow, FLOOR_BPS, host.nic_bps)
            host.report((), now_ns, withdraw=[flow])

    def on_slot(self, host: HostContext, now_ns: int) -> None:
        unused = [flow for flow in host.live_flows() if self.lends_unused and lends(flow)]
        for flow in unused:
            flow.stalled_bytes = flow.sent_bytes
            host.limit(flow, *before_grant(True, host.nic_bps))  # it may start again at any time
        flows = [flow for flow in host.live_flows() if flow not in unused and self._contends(host, flow, now_ns)]
        self._plan(host, flows, now_ns)
        host.report(flows, now_ns, plans=True, stalled=unused)

    @staticmethod
    def _contends(host: HostContext, flow: FlowState, now_ns: int) -> bool:
        if host.is_left_alone(flow):
            return _reminds(host, flow, now_ns)
        if not contends(flow, flow.sent_bytes, _alone_ns(host, flow), now_ns, host.rtt_ns, host.clock):
            return False
        if not flow.claimed:
            flow.lose_grant()  # it lasts longer than predicted, or moves again: begin anew
        return True

    def on_feedback(self, host: HostContext, flows: list[FlowState], now_ns: int) -> None:
        refused = []
        slot = host.clock.index(now_ns)
        for flow in flows:
            grant = flow.grant
            assert grant is not None
            short = too_short(_alone_ns(host, flow), host.rtt_ns)
            firm_bps, ceiling_bps = enforced(grant.share_bps, grant.ceiling_bps, host.nic_bps, short)
            if not (flow.limit.lifted and host.jobs[flow.id.job].uncontended):  # alone still, says its switch
                host.limit(flow, firm_bps, ceiling_bps, grant.stands_for)
            # Once per slot: the loads in a refusal are fresh, so a second one means a crowd, not a race.
            if flow.plan_bps and not grant.accepted and flow.replanned_slot != slot:
                flow.replanned_slot = slot
                refused.append(flow)
        self._plan(host, refused, now_ns)
        host.report(refused, now_ns, plans=True)
        host.report((), now_ns, withdraw=[flow for flow in flows if host.jobs[flow.id.job].uncontended])

    def _plan(self, host: HostContext, flows: Iterable[FlowState], now_ns: int) -> None:
        """One by one: what this host plans now is not in the loads it was told, and its flows share its NIC."""
        free_bps = [host.nic_bps - host.others_bps] * host.clock.horizon
        for flow in flows:
            self._plan_one(host, flow, free_bps, now_ns)
            for index, planned_bps in enumerate(flow.plan_bps):
                free_bps[index] = max(0.0, free_bps[index] - planned_bps)

    def _plan_one(self, host: HostContext, flow: FlowState, free_bps: Sequence[float], now_ns: int) -> None:
        """Algorithm 1 from now on; the first slot is what is left of the current one, at the arbiter's share."""
        grant = flow.grant
        flow.plan_bps = ()
        if grant is None or host.clock.index(now_ns) - flow.grant_slot >= len(grant.load):
            return  # nothing is known about any slot from now on
        clock = host.clock
        flow.plan_slot = clock.index(now_ns)
        # The grant may be older than this slot: shift it, and know nothing about the slots it did not cover.
        shift = max(0, flow.plan_slot - flow.grant_slot)
        available = grant.available_bps[shift:]
        load = grant.load[shift:]
        room = [transfer_bytes(grant.share_bps, clock.remaining_ns(now_ns))]
        room += [transfer_bytes(min(free), clock.length_ns) for free in zip(available[1:], free_bps[1:], strict=False)]
        schedule = allocate(flow.remaining_bytes, room, load[: len(room)])
        later_bps = (rate_bps(volume, clock.length_ns) for volume in schedule.volume_bytes[1:])
        # Shares know nothing of cross traffic, and the table has no room for both on any link of the path. Of a host
        # with several NICs only the switch knows on which of them that is.
        first_bps = min(grant.share_bps, free_bps[0], available[0]) if host.others_bps else grant.share_bps
        flow.plan_bps = (first_bps, *later_bps)

    # ---- Hand-over ----

    def next_deadline(self, host: HostContext) -> int | None:
        releases = (_release_ns(host, flow) for flow in host.flows.values() if flow.live and flow.claimed)
        return min((release_ns for release_ns in releases if release_ns is not None), default=None)

    def awaited(self, host: HostContext, now_ns: int) -> Collection[str]:
        claimed = [(flow, _release_ns(host, flow)) for flow in host.live_flows() if flow.claimed]
        return {flow.id.job for flow, release_ns in claimed if release_ns is not None and release_ns <= now_ns}

    def on_tick(self, host: HostContext, now_ns: int) -> None:
        leaving = [flow for flow in host.live_flows() if flow.claimed and _almost_through(host, flow, now_ns)]
        host.report((), now_ns, withdraw=leaving)


# ---- The rules themselves, which the array engine of the simulator calls too ----


def too_short(alone_comm_ns: float, rtt_ns: int) -> bool:
    """Whether a burst is over before turns could be taken."""
    return alone_comm_ns < max(SHORTEST_BURST_RTTS * rtt_ns, SHORTEST_BURST_NS)


def too_short_many(alone_comm_ns: Floats, rtt_ns: Ints) -> Bools:
    """The same of many bursts."""
    return alone_comm_ns < np.maximum(SHORTEST_BURST_RTTS * rtt_ns, SHORTEST_BURST_NS)


def asks(alone_comm_ns: float, rtt_ns: int, slot_ns: int) -> bool:
    """Whether a burst asks for a turn. One of a slot or more always does: one late answer must not be the last one that
    is asked for."""
    return alone_comm_ns >= slot_ns or not too_short(alone_comm_ns, rtt_ns)


def before_grant(asked: bool, nic_bps: float) -> tuple[float, float]:
    """Rate and ceiling of a burst that has just begun. One that asks for no turn is guaranteed the line rate, or HTB
    would let the host's other flows go first."""
    return (FLOOR_BPS if asked else nic_bps), nic_bps


def enforced(share_bps: float, ceiling_bps: float, nic_bps: float, short: bool) -> tuple[float, float]:
    """Rate and ceiling in force for what arbitration gave."""
    return max(share_bps, FLOOR_BPS), nic_bps if short else max(ceiling_bps, FLOOR_BPS)


def enforced_ceilings(ceiling_bps: Floats, nic_bps: Floats, short: Bools) -> Floats:
    """The ceilings in force of many flows."""
    return np.where(short, nic_bps, np.maximum(ceiling_bps, FLOOR_BPS))


def contends(
    flow: PhasedFlow, sent_bytes: float, alone_comm_ns: float, now_ns: int, rtt_ns: int, clock: SlotClock
) -> bool:
    """Whether a live flow claims, or claims again, with this slot's report. `alone_comm_ns`: its burst's."""
    slot_ns = clock.length_ns
    match flow.phase:
        case Phase.RELEASED:
            return now_ns - flow.released_ns >= rtt_ns  # else it is about to end, as predicted
        case Phase.READY:
            return now_ns - flow.ready_ns >= slot_ns or asks(alone_comm_ns, rtt_ns, slot_ns)
        case Phase.STALLED:
            return flow.stalls.may_claim(clock.index(now_ns), slot_ns, sent_bytes - flow.stalled_bytes)
    return True


def lends(flow: PhasedFlow) -> bool:
    """Whether a live flow gives up its claim, because its share lay unused."""
    return flow.claimed and flow.stalls.unused


def handover_bytes(grant: Grant | None, rtt_ns: int) -> float | None:
    """With no more than this left a flow withdraws: its last byte leaves within a round trip at the granted rate. None:
    it was granted nothing that it could hand over."""
    return None if grant is None or grant.share_bps <= 0.0 else transfer_bytes(grant.share_bps, rtt_ns)


def _reminds(host: HostContext, flow: FlowState, now_ns: int) -> bool:
    """Whether its switch may soon have forgotten it."""
    return host.clock.index(now_ns) - flow.claimed_slot >= REMIND_SLOTS


def _alone_ns(host: HostContext, flow: FlowState) -> float:
    """How long its burst takes alone."""
    return host.jobs[flow.id.job].progress.alone_comm_ns * flow.burst_bytes / flow.spec.size_bytes


def _release_ns(host: HostContext, flow: FlowState) -> int | None:
    """When to withdraw: one round trip before the last byte leaves at the granted rate."""
    if flow.grant is None or flow.grant.share_bps <= 0.0:
        return None
    lately_bps = flow.bandwidth.value(host.clock.index(flow.observed_ns))
    expected_bps = min(flow.grant.share_bps, MOST_FASTER * lately_bps)
    if expected_bps <= 0.0:
        return None
    return flow.observed_ns + transfer_ns(flow.remaining_bytes, expected_bps) - host.rtt_ns


def _almost_through(host: HostContext, flow: FlowState, now_ns: int) -> bool:
    left_bytes = handover_bytes(flow.grant, host.rtt_ns + now_ns - flow.observed_ns)
    return left_bytes is not None and flow.remaining_bytes <= left_bytes

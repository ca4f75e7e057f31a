"""mlcc: the paper as written, slot by slot (§IV).

At the start of each slot a host fetches the loads of its flows' paths, plans each flow with Algorithm 1, adjusts the
current slot's rate to the flows it depends on (Algorithm 2), applies it, and sends the plan to the switch. Inside a
slot nothing changes: a flow that becomes ready waits for the next slot, and no flow takes what another leaves.

That is the strictest reading. Where the text, or the authors' prototype, can be read otherwise there is an option
(`OPTIONS`), chosen by name: mlcc:ready:open. `mlcc-open` has all those that favour the paper, and conserves work.

Where the paper is silent, this takes what favours it. Its update_schedule() answers "a status code indicating success
or not" (§V); here a refused flow plans again from the loads in the answer, up to TRIES times in a slot, and sends
nothing until the next slot only when that fails too.
"""

from collections.abc import Mapping
from typing import ClassVar

from paceline.flowcore.allocation.allocator import allocate
from paceline.flowcore.allocation.dependency import excess_bytes, increased_bps, shortfall_bytes
from paceline.flowcore.host.flow_state import FlowState
from paceline.flowcore.host.policy import HostContext, Policy
from paceline.flowcore.messages.events import FLOOR_BPS

# Plans of one flow in one slot. At 2 ms each way the third is in force 12 ms into a slot of 60.
TRIES = 3

OPTIONS = {
    "ready": 'rates are allocated "upon it being ready": a flow plans at once, not in the next slot',
    "line-rate": '"a few packets ... at the line rate": until the switch has answered; not at the floor',
    "open": '"released bandwidth can then be utilized": a plan is a guarantee, and what is left is borrowed; not a cap',
    "tail": "a flow with nothing planned for a slot may borrow, as the prototype stops no flow; not the floor",
    "slot-mean": "B_i from what was sent in whole slots, not from the fastest stretch of each",
}


class Mlcc(Policy):
    name = "mlcc"
    options: ClassVar[Mapping[str, str]] = OPTIONS
    acts_at_boundaries = True

    def __init__(self, *chosen: str) -> None:
        super().__init__(*chosen)
        self.samples_stretches = "slot-mean" not in self.chosen

    def on_ready(self, host: HostContext, flow: FlowState, now_ns: int) -> None:
        host.limit(flow, FLOOR_BPS, host.nic_bps if "line-rate" in self.chosen else FLOOR_BPS)
        if "ready" in self.chosen:
            host.report([flow], now_ns)

    def on_done(self, host: HostContext, flow: FlowState, now_ns: int) -> None:
        host.limit(flow, FLOOR_BPS, host.nic_bps if "line-rate" in self.chosen else FLOOR_BPS)
        host.report((), now_ns, withdraw=[flow])

    def _apply(self, host: HostContext, flow: FlowState, rate_bps: float) -> None:
        borrows = ("open" if rate_bps > 0.0 else "tail") in self.chosen
        firm_bps = max(rate_bps, FLOOR_BPS)
        host.limit(flow, firm_bps, max(firm_bps, host.nic_bps) if borrows else firm_bps)

    def on_slot(self, host: HostContext, now_ns: int) -> None:
        host.report(host.live_flows(), now_ns)

    def on_boundary(self, host: HostContext, now_ns: int) -> None:
        """The plan made in the last slot goes on until this slot's negotiation."""
        for flow in host.live_flows():
            offset = host.clock.index(now_ns) - flow.plan_slot
            if 0 <= offset < len(flow.plan_bps):
                self._apply(host, flow, flow.plan_bps[offset])

    def on_feedback(self, host: HostContext, flows: list[FlowState], now_ns: int) -> None:
        slot = host.clock.index(now_ns)
        planned = []
        # What this host plans now is not in the loads it was told: flows of one host share at least its NIC.
        committed_bps = [0.0] * host.clock.horizon
        for flow in flows:
            grant = flow.grant
            assert grant is not None
            if flow.plan_bps and flow.plan_slot == slot and grant.accepted:
                continue  # this slot's plan was accepted, or the news concerns other flows: nothing to do
            if flow.replanned_slot != slot:
                flow.replanned_slot, flow.tries = slot, 0
            flow.tries += 1
            if flow.tries <= TRIES:
                self._plan(host, flow, committed_bps, now_ns)
                planned.append(flow)
            else:
                self._apply(host, flow, 0.0)
        host.report(planned, now_ns, plans=True)

    def _plan(self, host: HostContext, flow: FlowState, committed_bps: list[float], now_ns: int) -> None:
        grant, clock = flow.grant, host.clock
        assert grant is not None
        slot = clock.index(now_ns)
        before = [
            flow.plan_bps[offset] if 0 <= offset < len(flow.plan_bps) else 0.0
            for offset in range(slot - flow.plan_slot, slot - flow.plan_slot + clock.horizon)
        ]
        bandwidth_bps = flow.bandwidth.value(slot)
        available = [
            max(0.0, min(free, bandwidth_bps) - taken)
            for free, taken in zip(grant.available_bps, committed_bps, strict=True)
        ]
        durations_ns = [clock.remaining_ns(now_ns)] + [clock.length_ns] * (clock.horizon - 1)
        room = [rate * ns / 8e9 for rate, ns in zip(available, durations_ns, strict=True)]
        volumes = allocate(flow.remaining_bytes, room, grant.load).volume_bytes  # Algorithm 1
        rate_bps = volumes[0] * 8e9 / durations_ns[0]

        # Algorithm 2: F_i with this slot's plan against the flows it depends on.
        per_slot = 8e9 / durations_ns[0]
        volume = flow.volume_bytes + volumes[0]
        shortfall = shortfall_bytes(flow.id.role, volume, grant.upstream_bytes, grant.downstream_bytes)
        most_bps = min(available[0], bandwidth_bps, flow.remaining_bytes * per_slot)
        rate_bps = min(increased_bps(rate_bps, shortfall * per_slot, bandwidth_bps), most_bps)
        volume = flow.volume_bytes + rate_bps / per_slot
        excess = excess_bytes(volume, grant.upstream_bytes, flow.spec.window_bytes)
        rate_bps = max(0.0, rate_bps - excess * per_slot)

        # What the adjustment left over or took away is planned greedily over the later slots.
        rest = flow.remaining_bytes - rate_bps / per_slot
        later = allocate(rest, room[1:], grant.load[1:]).volume_bytes if len(room) > 1 else ()
        flow.plan_slot = slot
        flow.plan_bps = (rate_bps, *(v * 8e9 / clock.length_ns for v in later))
        for index, (new, old) in enumerate(zip(flow.plan_bps, before, strict=True)):
            committed_bps[index] += new - old
        self._apply(host, flow, rate_bps)


class MlccOpen(Mlcc):
    """The work-conserving reading."""

    name = "mlcc-open"
    options: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.chosen = frozenset(OPTIONS) - {"slot-mean"}

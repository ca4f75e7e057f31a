"""SwitchAgent: one emulated switch as a state machine.

It keeps the load table of its links (its outgoing ones, and the uplinks of the hosts plugged into it: a ToR knows
its ports' speed, and a NIC is as shared as any link), tells each flow what its path has promised, enters or
refuses plans, relays accumulated volumes between dependent flows, and, where the policy has an arbiter, divides
the current slot among the jobs that want it.

A host talks to its own ToR only. The ToR forwards each claim to the other switches on the flow's path, where it
appears as one more reporting peer, and merges their grants with its own:

    available = min,  load = Σ,  share = min,  ceiling = min,  accepted = all,  alone = max.

State is soft: everything here came in a report and disappears when the reports stop. A restarted switch is rebuilt
by the next report of each host.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flowcore.arbitrate import Arbiter, Contender
from flowcore.messages import Claim, Effect, Feedback, Grant, Report, Send, SwitchEvent, Tick
from flowcore.patterns import FlowId
from flowcore.slots import SlotClock
from flowcore.table import LoadTable, Plan
from flowcore.topology import Topology
from flowcore.units import transfer_ns

# Bids grow while jobs wait. Settling them twice a slot costs little and was measured to be as good as always.
SETTLES_PER_SLOT = 2

# A job's flow sizes are kept between iterations, to know how long its exchange takes alone; after this many slots
# of silence (a minute at 60 ms) the job is gone.
JOB_MEMORY_SLOTS = 1000

UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True)
class Domain:
    """The links a switch keeps a table of, who keeps the others, and the hosts it is home to."""

    capacity_bps: Mapping[str, float]
    keeper: Mapping[str, str]  # link: the switch that tables it
    hosts: frozenset[str]

    @classmethod
    def of(cls, switch: str, topology: Topology) -> "Domain":
        keeper = {
            link.name: topology.switch_of.get(link.source, link.source) for link in topology.links.values()
        }
        own = {name: topology.links[name].capacity_bps for name, owner in keeper.items() if owner == switch}
        return cls(own, keeper, frozenset(h for h, tor in topology.switch_of.items() if tor == switch))


class _JobSizes:
    """What one iteration of a job puts on the links of this switch."""

    __slots__ = ("_bits_on", "_known", "alone_ns", "heard_slot")

    def __init__(self) -> None:
        self._known: dict[FlowId, float] = {}
        self._bits_on: dict[str, float] = {}
        self.alone_ns = 0
        self.heard_slot = 0

    def learn(self, claim: Claim, links: Iterable[str], capacity_bps: Mapping[str, float]) -> None:
        known = self._known.get(claim.flow)
        if known == claim.size_bytes:
            return
        self._known[claim.flow] = claim.size_bytes
        for link in links:
            self._bits_on[link] = self._bits_on.get(link, 0.0) + claim.size_bytes - (known or 0.0)
        self.alone_ns = max(
            (transfer_ns(size, capacity_bps[link]) for link, size in self._bits_on.items()), default=0
        )


class SwitchAgent:
    def __init__(self, name: str, domain: Domain, clock: SlotClock, arbiter: Arbiter | None) -> None:
        self.name = name
        self.table = LoadTable(domain.capacity_bps, clock.horizon)
        self._domain = domain
        self._clock = clock
        self._arbiter = arbiter
        self._claims: dict[FlowId, Claim] = {}
        self._peer_of: dict[FlowId, str] = {}  # who reported the flow: its host, or its ToR
        self._accepted: dict[FlowId, bool] = {}
        self._shares: dict[FlowId, float] = {}
        self._ceilings: dict[FlowId, float] = {}
        self._volume: dict[FlowId, float] = {}  # F with this slot's plan
        self._jobs: dict[str, _JobSizes] = {}
        self._remote: dict[FlowId, dict[str, Grant]] = {}  # grants of other switches on the flow's path
        self._settle_ns = clock.epoch_ns
        self._unsettled = False

    def next_deadline(self) -> int | None:
        return self._settle_ns if self._claims else None

    def handle(self, event: SwitchEvent, now_ns: int) -> list[Effect]:
        slot = self._clock.index(now_ns)
        match event:
            case Report():
                return self._report(event, slot, now_ns)
            case Feedback():
                return self._merge(event, slot)
            case Tick():
                return self._tick(slot, now_ns)

    # ---- Reports ----

    def _report(self, report: Report, slot: int, now_ns: int) -> list[Effect]:
        if not self._claims:
            self._arm(now_ns)
        effects = self._forward(report)
        contention_changed = False
        for flow in report.withdrawn:
            contention_changed |= self._forget(flow)
        for claim in report.claims:
            contention_changed |= claim.flow not in self._claims
            self._enter(claim, report, slot)
        told = {claim.flow for claim in report.claims}
        if contention_changed and self._arbiter:
            told |= self._settle(slot)
        else:
            self._unsettled = True
        return effects + self._feedback(told, slot)

    def _enter(self, claim: Claim, report: Report, slot: int) -> None:
        flow = claim.flow
        self._claims[flow] = claim
        self._peer_of[flow] = report.sender
        self._volume[flow] = claim.sent_bytes + claim.planned_bytes
        links = self.table.renew(flow, claim.path, slot)
        sizes = self._jobs.setdefault(flow.job, _JobSizes())
        sizes.heard_slot = slot
        sizes.learn(claim, links, self._domain.capacity_bps)
        if claim.plan_bps:
            self._accepted[flow] = self.table.enter(flow, self._planned(claim, report, slot), slot)

    def _planned(self, claim: Claim, report: Report, slot: int) -> Plan:
        """The plan as asked for; with an arbiter, the current slot is not the host's to plan but the arbiter's."""
        plan = Plan(report.first_slot, claim.plan_bps)
        if self._arbiter is None:
            return plan
        later = tuple(plan.at(slot + ahead) for ahead in range(1, self._clock.horizon))
        return Plan(slot, (self._shares.get(claim.flow, 0.0), *later))

    def _forget(self, flow: FlowId) -> bool:
        """Drop the claim and all that came with it. F stays: followers must learn that the flow is through."""
        self.table.drop(flow)
        self._peer_of.pop(flow, None)
        self._accepted.pop(flow, None)
        self._shares.pop(flow, None)
        self._ceilings.pop(flow, None)
        self._remote.pop(flow, None)
        return self._claims.pop(flow, None) is not None

    # ---- Arbitration of the current slot ----

    def _settle(self, slot: int) -> set[FlowId]:
        """Divide the current slot anew; returns the flows whose share or ceiling changed."""
        self._unsettled = False
        if self._arbiter is None:
            return set()
        contenders, flows_of = self._contenders()
        rates = self._arbiter(contenders, self._domain.capacity_bps)
        shares = {
            flow: rate for contender, rate in zip(contenders, rates, strict=True) for flow in flows_of[contender.job]
        }
        self.table.set_current(shares, slot)
        ceilings = self._borrowable(shares)
        changed = {
            flow
            for flow in shares
            if shares[flow] != self._shares.get(flow) or ceilings[flow] != self._ceilings.get(flow)
        }
        self._shares, self._ceilings = shares, ceilings
        return changed

    def _contenders(self) -> tuple[list[Contender], dict[str, list[FlowId]]]:
        flows_of: dict[str, list[FlowId]] = {}
        for flow in self._claims:
            flows_of.setdefault(flow.job, []).append(flow)
        contenders = []
        for job, flows in sorted(flows_of.items()):
            on: dict[str, int] = {}
            for flow in flows:
                for link in self.table.links_of(flow):
                    on[link] = on.get(link, 0) + 1
            claims = [self._claims[flow] for flow in flows]
            bid = max(claim.bid for claim in claims)
            contenders.append(Contender(job, bid, on, min(claim.limit_bps for claim in claims)))
        return contenders, flows_of

    def _borrowable(self, shares: Mapping[FlowId, float]) -> dict[FlowId, float]:
        """Up to where each flow may borrow: what its links have beyond the shares of *other* hosts.

        Flows of its own host need no protection here: they share its NIC, where HTB serves guarantees first. The
        NIC itself therefore counts in full.
        """
        taken: dict[str, float] = {}
        by_host: dict[tuple[str, str], float] = {}
        for flow, share in shares.items():
            for link in self.table.links_of(flow):
                taken[link] = taken.get(link, 0.0) + share
                by_host[link, flow.source] = by_host.get((link, flow.source), 0.0) + share
        return {
            flow: max(
                share,
                min(
                    self._domain.capacity_bps[link] - (taken[link] - by_host[link, flow.source])
                    for link in self.table.links_of(flow)
                ),
            )
            for flow, share in shares.items()
        }

    def _tick(self, slot: int, now_ns: int) -> list[Effect]:
        self._arm(now_ns)
        lapsed = self.table.expire(slot)
        for flow in lapsed:
            self._forget(flow)
        for job in [job for job, sizes in self._jobs.items() if slot - sizes.heard_slot > JOB_MEMORY_SLOTS]:
            del self._jobs[job]
            for flow in [flow for flow in self._volume if flow.job == job]:
                del self._volume[flow]
        if lapsed or self._unsettled:
            return self._feedback(self._settle(slot), slot)
        self.table.set_current(self._shares, slot)  # a new slot may have begun: what holds goes on
        return []

    def _arm(self, now_ns: int) -> None:
        step_ns = max(1, self._clock.length_ns // SETTLES_PER_SLOT)
        start_ns = self._clock.start_ns(self._clock.index(now_ns))
        self._settle_ns = start_ns + ((now_ns - start_ns) // step_ns + 1) * step_ns

    # ---- Grants ----

    def _feedback(self, flows: Iterable[FlowId], slot: int) -> list[Effect]:
        """One message per peer with the grants of the given flows."""
        by_peer: dict[str, list[Grant]] = {}
        for flow in sorted(flows):
            peer = self._peer_of.get(flow)
            if peer is not None:
                by_peer.setdefault(peer, []).append(self._grant(flow, slot))
        return [Send(peer, Feedback(self.name, slot, tuple(grants))) for peer, grants in by_peer.items()]

    def _grant(self, flow: FlowId, slot: int) -> Grant:
        claim = self._claims[flow]
        available, load = self.table.view(flow, slot)
        own = Grant(
            flow=flow,
            accepted=self._accepted.get(flow, True),
            share_bps=self._shares.get(flow, 0.0),
            ceiling_bps=self._ceilings.get(flow, 0.0),
            available_bps=available,
            load=load,
            alone_ns=self._jobs[flow.job].alone_ns,
            pred_bytes=min((self._volume.get(pred, 0.0) for pred in claim.preds), default=UNLIMITED),
            follower_bytes=max((self._volume.get(after, 0.0) for after in claim.followers), default=0.0),
        )
        return _merged(own, self._remote.get(flow, {}).values())

    # ---- Federation ----

    def _forward(self, report: Report) -> list[Effect]:
        """To each other switch on the paths, what concerns its links; only a host's own ToR forwards."""
        if report.sender not in self._domain.hosts:
            return []
        claims: dict[str, list[Claim]] = {}
        withdrawn: dict[str, list[FlowId]] = {}
        for claim in report.claims:
            for switch in self._others_on(claim.path):
                claims.setdefault(switch, []).append(claim)
        for flow in report.withdrawn:
            if flow in self._claims:
                for switch in self._others_on(self._claims[flow].path):
                    withdrawn.setdefault(switch, []).append(flow)
        return [
            Send(
                switch,
                Report(
                    self.name,
                    report.first_slot,
                    tuple(claims.get(switch, ())),
                    tuple(withdrawn.get(switch, ())),
                ),
            )
            for switch in dict.fromkeys([*claims, *withdrawn])
        ]

    def _others_on(self, path: Iterable[str]) -> dict[str, None]:
        keeper = self._domain.keeper
        return dict.fromkeys(keeper[link] for link in path if keeper[link] != self.name)

    def _merge(self, feedback: Feedback, slot: int) -> list[Effect]:
        known = [grant for grant in feedback.grants if grant.flow in self._claims]
        for grant in known:
            self._remote.setdefault(grant.flow, {})[feedback.sender] = grant
        return self._feedback({grant.flow for grant in known}, slot)


def _merged(own: Grant, others: Iterable[Grant]) -> Grant:
    for other in others:
        own = Grant(
            flow=own.flow,
            accepted=own.accepted and other.accepted,
            share_bps=min(own.share_bps, other.share_bps),
            ceiling_bps=min(own.ceiling_bps, other.ceiling_bps),
            available_bps=tuple(map(min, own.available_bps, other.available_bps)),
            load=tuple(a + b for a, b in zip(own.load, other.load, strict=True)),
            alone_ns=max(own.alone_ns, other.alone_ns),
            pred_bytes=max(own.pred_bytes, other.pred_bytes) if own.pred_bytes != UNLIMITED else UNLIMITED,
            follower_bytes=max(own.follower_bytes, other.follower_bytes),
        )
    return own

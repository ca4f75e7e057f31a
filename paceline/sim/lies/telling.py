"""What a host that lies makes of its reports. They pass the codec: what it refuses, the switch refuses."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from paceline.flowcore.messages.reports import Bid, Claim, Report
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.weights import MOST
from paceline.wire.codec import REPORT, FlowPaths


class Lie(StrEnum):
    URGENT = "urgent"  # the most urgent bid a message can carry
    NEARLY_DONE = "nearly done"  # nothing remains, always
    ABSURD = "absurd"  # numbers that no flow can have
    PHANTOM = "phantom"  # flows of jobs that do not exist
    EARLY = "early"  # plans for all of the NIC, for all slots
    HEAVY = "heavy"  # the most weight a message can carry
    BORROWED_NAME = "borrowed name"  # flows of another's job that do not exist


DRAWN = (Lie.URGENT, Lie.NEARLY_DONE, Lie.ABSURD, Lie.PHANTOM, Lie.EARLY)  # in fault histories: their seeds are kept

URGENT = 1e12
ABSURD = 1e30
PHANTOMS = 3


def told(report: Report, lie: str, topology: Topology) -> Report:
    claims = report.claims
    match Lie(lie):
        case Lie.URGENT:
            claims = tuple(claim._replace(bid=Bid(URGENT, URGENT, 1.0)) for claim in claims)
        case Lie.NEARLY_DONE:
            claims = tuple(claim._replace(bid=claim.bid._replace(remaining_ns=0.0), size_bytes=0.0) for claim in claims)
        case Lie.ABSURD:
            claims = tuple(claim._replace(sent_bytes=ABSURD, size_bytes=ABSURD) for claim in claims)
        case Lie.HEAVY:
            claims = tuple(
                claim._replace(weight=MOST, bid=claim.bid._replace(urgency=MOST * claim.bid.urgency))
                for claim in claims
            )
        case Lie.PHANTOM:
            claims += phantoms(report.sender, topology)
        case Lie.EARLY:
            plan_bps = (topology.links[claims[0].path[0]].capacity_bps,) * 10 if claims else ()
            claims = tuple(claim._replace(plan_bps=plan_bps, planned_bytes=1e9) for claim in claims)
    return replace(report, claims=claims)


def as_received(report: Report, topology: Topology) -> Report:
    """Through the wire and back; raises BadMessage."""
    return REPORT.from_wire(REPORT.to_wire(report), FlowPaths(topology))


def phantoms(host: str, topology: Topology) -> tuple[Claim, ...]:
    """Claims of flows that no job sends."""
    targets = _targets(host, topology)
    return _never_sent(
        [FlowId(f"phantom{n}", host, targets[n % len(targets)], Role.RING) for n in range(PHANTOMS)], topology
    )


def in_the_name_of(job: str, host: str, topology: Topology) -> tuple[Claim, ...]:
    """Claims of flows that this job, which is another's, does not have."""
    return _never_sent([FlowId(job, host, target, Role.PUSH) for target in _targets(host, topology)], topology)


def _targets(host: str, topology: Topology) -> list[str]:
    return [other for other in topology.hosts if other != host]


def _never_sent(flows: Sequence[FlowId], topology: Topology) -> tuple[Claim, ...]:
    paths = [topology.path(flow.source, flow.target, str(flow)) for flow in flows]
    bid = Bid(100.0, 1e8, 1e7)
    return tuple(Claim(flow, path, 1e7, bid, 0.0, 0.0, (), ()) for flow, path in zip(flows, paths, strict=True))

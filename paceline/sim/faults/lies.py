"""What a host that lies makes of its reports. They pass the codec: what it refuses, the switch refuses."""

from dataclasses import replace

from paceline.flowcore.messages.reports import Bid, Claim, Report
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import Topology
from paceline.sim.faults.history import Lie
from paceline.wire.codec import REPORT, FlowPaths

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
    targets = [other for other in topology.hosts if other != host]
    flows = [FlowId(f"phantom{n}", host, targets[n % len(targets)], Role.RING) for n in range(PHANTOMS)]
    paths = [topology.path(flow.source, flow.target, str(flow)) for flow in flows]
    bid = Bid(100.0, 1e8, 1e7)
    return tuple(Claim(flow, path, 1e7, bid, 0.0, 0.0, (), ()) for flow, path in zip(flows, paths, strict=True))

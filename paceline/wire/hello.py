"""The first message of a stream: who speaks, and on which terms."""

from collections.abc import Iterable

from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.uplinks import Uplink, uplinks
from paceline.wire import control_pb2 as pb
from paceline.wire.flow_names import BadMessage

MOST_UPLINKS = 1000  # a host has two or three tiers above it


def tell_topology(hello: pb.Hello, topology: Topology) -> None:
    """Says in a Hello which topology its sender knows, and the cables above the sender."""
    hello.topology = topology.fingerprint
    del hello.uplink[:]
    hello.uplink.extend(_to_wire(uplinks(topology, hello.name)))


def _to_wire(every: Iterable[Uplink]) -> list[pb.Uplink]:
    return [pb.Uplink(node=one.node, parent=one.parents, capacity_bps=one.capacity_bps) for one in every]


def uplinks_of(hello: pb.Hello) -> list[Uplink]:
    if len(hello.uplink) > MOST_UPLINKS:
        raise BadMessage("shape", f"found {len(hello.uplink)} uplinks, expected at most {MOST_UPLINKS}")
    found = [Uplink(one.node, tuple(one.parent), tuple(one.capacity_bps)) for one in hello.uplink]
    for one in found:
        if len(one.parents) != len(one.capacity_bps):
            raise BadMessage("shape", f"found {len(one.capacity_bps)} rates for {len(one.parents)} parents")
    return found

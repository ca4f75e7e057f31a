"""Which way packets go: the paths of paceline/flowcore/model/topology.py as routing tables.

Down, a switch has a route to each host below it through the child it is below; up, everything else goes to its
parent. Where a switch has several parents, flowcore chooses one per flow by a hash of the flow's name. The kernel
knows no flow names, but it can look up a table by source and destination: one rule per pair of hosts pins the pair to
the parent that Topology.path gives its flow.

Two flows of one pair of hosts may have different names and so, in flowcore, different parents; their packets look
alike, so all take the way of the first flow in the file. `detours` lists the other flows; a star or a tree has none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from paceline.flowcore.model.patterns import FlowId, Role, flows_of
from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.model.topology import Topology

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SwitchRoutes:
    down: Mapping[str, str]  # host below -> the child it is reached through
    up: tuple[str, ...]  # parents; the first is the default
    pinned: Mapping[Pair, str]  # (source, target) -> the parent their packets go to


def flows_in(scenario: Scenario) -> list[FlowId]:
    """Every flow that crosses the network, in the order of the file; cross traffic last."""
    flows = [spec.flow for job in scenario.jobs for spec in flows_of(job) if not spec.flow.local]
    return flows + [
        FlowId(f"cross traffic {number}", burst.source, burst.target, Role.OTHER)
        for number, burst in enumerate(scenario.cross_traffic)
    ]


def paths_of(topology: Topology, flows: Iterable[FlowId]) -> dict[Pair, tuple[str, ...]]:
    """The nodes between each pair of hosts, ends included: the way of the pair's first flow."""
    paths: dict[Pair, tuple[str, ...]] = {}
    for flow in flows:
        paths.setdefault((flow.source, flow.target), _nodes(topology, flow))
    return paths


def detours(topology: Topology, flows: Iterable[FlowId]) -> list[FlowId]:
    """The flows whose packets do not go where Topology.path sends them."""
    flows = list(flows)
    paths = paths_of(topology, flows)
    return [flow for flow in flows if paths[flow.source, flow.target] != _nodes(topology, flow)]


def switch_routes(topology: Topology, paths: Mapping[Pair, tuple[str, ...]]) -> dict[str, SwitchRoutes]:
    below: dict[str, dict[str, str]] = {switch: {} for switch in topology.switches}
    for host in topology.hosts:
        _note_above(topology, below, host, host)
    pinned: dict[str, dict[Pair, str]] = {switch: {} for switch in topology.switches}
    for pair, nodes in paths.items():
        for node, following in pairwise(nodes[1:]):
            if len(topology.parents.get(node, ())) > 1 and following in topology.parents[node]:
                pinned[node][pair] = following
    return {
        switch: SwitchRoutes(below[switch], topology.parents.get(switch, ()), pinned[switch])
        for switch in topology.switches
    }


def _note_above(topology: Topology, below: dict[str, dict[str, str]], host: str, node: str) -> None:
    """Tells every switch above `node` that `host` is reached through it."""
    for parent in topology.parents.get(node, ()):
        below[parent][host] = node
        _note_above(topology, below, host, parent)


def _nodes(topology: Topology, flow: FlowId) -> tuple[str, ...]:
    links = [topology.links[name] for name in topology.path(flow.source, flow.target, str(flow))]
    return (flow.source, *(link.target for link in links))

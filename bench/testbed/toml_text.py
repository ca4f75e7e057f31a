"""A topology written the way a configuration file has it."""

from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import BPS_PER_GBPS


def topology_text(topology: Topology) -> str:
    """The [topology] table that `paceline.flowcore.model.scenario.topology_table` reads back as this topology."""
    children: dict[str, int] = {}
    for parents in topology.parents.values():
        children[parents[0]] = children.get(parents[0], 0) + 1
    tor = topology.switch_of[topology.hosts[0]]
    rates = [_gbps(topology, topology.hosts[0], tor)]
    node = tor
    while node in topology.parents:
        parent = topology.parents[node][0]
        rates.append(_gbps(topology, node, parent))
        node = parent
    lines = ["[topology]", f'kind = "{topology.kind}"']
    match topology.kind:
        case "star":
            lines += [f"hosts = {len(topology.hosts)}", f"link_gbps = {rates[0]}"]
        case "tree":
            edge = topology.parents[tor][0]
            lines += [
                f"servers_per_tor = {children[tor]}",
                f"tors_per_edge = {children[edge]}",
                f"edges = {children[topology.parents[edge][0]]}",
                f"link_gbps = {rates}",
            ]
        case "clos":
            tors = set(topology.switch_of.values())
            lines += [
                f"servers_per_tor = {children[tor]}",
                f"tors = {len(tors)}",
                f"spines = {len(topology.parents[tor])}",
                f"link_gbps = {rates}",
            ]
        case other:
            raise ValueError(f"no configuration file can describe a topology of kind {other!r}")
    return "\n".join(lines) + "\n"


def _gbps(topology: Topology, node: str, parent: str) -> float:
    return topology.links[f"{node}->{parent}"].capacity_bps / BPS_PER_GBPS

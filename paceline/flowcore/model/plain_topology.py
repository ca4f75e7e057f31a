"""A topology as plain lists and dicts, as JSON has them, and back: what one program learned, another one simulates."""

from collections.abc import Mapping
from typing import Any

from paceline.flowcore.model.topology import Link, Topology


def plain(topology: Topology) -> dict[str, object]:
    return {
        "kind": topology.kind,
        "hosts": list(topology.hosts),
        "switches": list(topology.switches),
        "links": [[link.name, link.source, link.target, link.capacity_bps] for link in topology.links.values()],
        "parents": {node: list(parents) for node, parents in topology.parents.items()},
    }


def from_plain(found: Mapping[str, Any]) -> Topology:
    """Raises KeyError, TypeError or ValueError where it is none."""
    links = [Link(str(name), str(source), str(target), float(bps)) for name, source, target, bps in found["links"]]
    topology = Topology(
        str(found["kind"]),
        tuple(map(str, found["hosts"])),
        tuple(map(str, found["switches"])),
        {link.name: link for link in links},
        {str(node): tuple(map(str, parents)) for node, parents in found["parents"].items()},
    )
    nodes = {*topology.hosts, *topology.switches}
    if not all({link.source, link.target} <= nodes and link.capacity_bps > 0 for link in links):
        raise ValueError("a link between unknown nodes, or without a rate")
    if not topology.switch_of:
        raise ValueError("no hosts")
    return topology

"""What two daemons must agree on to work together: the cables from one of them upward.

    uplinks of n = the cables from n to its parents, from those to theirs, up to the top

Law: daemons may have read the topology at different times, and hosts and racks are added meanwhile. They agree if every
node of these uplinks that both know has the same parents in both, over cables of the same rate. What only one of them
knows was added or is gone, and no disagreement: a path over it is told by those that know it.
"""

from collections.abc import Iterable
from math import isclose
from typing import NamedTuple

from paceline.flowcore.model.topology import Topology, link_name
from paceline.flowcore.model.units import BPS_PER_GBPS


class Uplink(NamedTuple):
    """The cables from a node to its parents; a host's are its NICs', the first one's first."""

    node: str
    parents: tuple[str, ...]
    capacity_bps: tuple[float, ...]


def uplinks(topology: Topology, node: str) -> tuple[Uplink, ...]:
    """From a node up to the top."""
    found: dict[str, Uplink] = {}
    to_do = [node]
    while to_do:
        one = to_do.pop()
        above = _above(topology, one)
        if above and one not in found:
            rates_bps = tuple(topology.links[link_name(one, parent)].capacity_bps for parent in above)
            found[one] = Uplink(one, above, rates_bps)
            to_do += above
    return tuple(found.values())


def disagreement(topology: Topology, theirs: Iterable[Uplink]) -> str:
    """What a peer's uplinks contradict in this topology, in one phrase; empty: nothing."""
    for one in theirs:
        if one.node not in topology.switch_of and one.node not in topology.switches:
            continue
        above = _above(topology, one.node)
        if one.parents != above:
            return f"{one.node} is below {_named(one.parents)} there, and below {_named(above)} here"
        for parent, theirs_bps in zip(above, one.capacity_bps, strict=False):
            own_bps = topology.links[link_name(one.node, parent)].capacity_bps
            if not isclose(theirs_bps, own_bps, rel_tol=1e-6):
                rates = f"{theirs_bps / BPS_PER_GBPS:g} Gbit/s there, and {own_bps / BPS_PER_GBPS:g} Gbit/s here"
                return f"the cable from {one.node} to {parent} has {rates}"
    return ""


def _above(topology: Topology, node: str) -> tuple[str, ...]:
    return (*topology.parents.get(node, ()), *topology.rails.get(node, {}).values())


def _named(nodes: tuple[str, ...]) -> str:
    return " and ".join(node[:60] for node in nodes[:5]) or "nothing"

"""Who is responsible for which link.

A link's table is kept by the switch that sends into it; a host's uplink by its ToR. A group of jobs is arbitrated by
the lowest switch with all their links in its scope, the subtree below it (arena.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from flowcore.topology import Link, Topology


@dataclass(frozen=True, slots=True)
class Domain:
    """What a switch is responsible for."""

    table_bps: Mapping[str, float]  # capacity of the links it keeps a table of
    keeper: Mapping[str, str]  # who keeps each link's table
    hosts: frozenset[str]  # whose ToR it is
    scope_bps: Mapping[str, float]  # capacity of every link at or below it: what it may arbitrate
    parent: str | None  # who arbitrates beyond that
    sees_arrivals: bool = True  # a flow's preds end where it begins, so its ToR knows them; a NIC does not

    @classmethod
    def of(cls, switch: str, topology: Topology) -> "Domain":
        below = {switch}
        for node in reversed([*topology.hosts, *topology.switches]):  # parents come after their children
            if topology.parents.get(node, ("",))[0] in below:
                below.add(node)
        links = topology.links.values()
        parent = topology.parents.get(switch, (None,))[0]
        keeper = {link.name: topology.switch_of.get(link.source, link.source) for link in links}
        # With several tops (spines) the one that arbitrates has all links in scope, the others' too.
        top = parent is None
        return cls(
            {link.name: link.capacity_bps for link in links if keeper[link.name] == switch},
            keeper,
            frozenset(host for host, tor in topology.switch_of.items() if tor == switch),
            {
                link.name: link.capacity_bps
                for link in links
                if top or (link.source in below and link.target in below)
            },
            parent,
        )

    @classmethod
    def of_nic(cls, nic: Link) -> "Domain":
        """A host on its own: nothing but its uplink."""
        capacity = {nic.name: nic.capacity_bps}
        return cls(capacity, {nic.name: nic.source}, frozenset(), capacity, None, sees_arrivals=False)

"""Which switch is responsible for which link.

A link's table is kept by the switch that sends into it; a host's uplink by its ToR. A group of jobs is arbitrated by
the lowest switch with all their links in its scope, the subtree below it (arbitration.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from paceline.flowcore.model.topology import Link, Topology


@dataclass(frozen=True, slots=True)
class Domain:
    """What a switch is responsible for."""

    table_bps: Mapping[str, float]  # capacity of the links it keeps a table of
    keeper: Mapping[str, str]  # the switch that keeps each link's table
    hosts: frozenset[str]  # the hosts plugged into it, if it is a ToR
    scope_bps: Mapping[str, float]  # capacity of every link at or below it: what it may arbitrate
    parent: str | None  # the switch that arbitrates beyond that
    sees_arrivals: bool = True  # upstream flows end where the flow begins, so its ToR knows them; a NIC does not
    uplinks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of its hosts, those in its table

    @classmethod
    def of_nic(cls, nic: Link) -> "Domain":
        """A host on its own: nothing but its uplink."""
        capacity = {nic.name: nic.capacity_bps}
        uplinks = {nic.source: (nic.name,)}
        return cls(capacity, {nic.name: nic.source}, frozenset(), capacity, None, sees_arrivals=False, uplinks=uplinks)


def domains(topology: Topology) -> dict[str, Domain]:
    """Every switch's responsibility; one pass over the links."""
    keeper = keepers(topology)
    tables: dict[str, dict[str, float]] = {switch: {} for switch in topology.switches}
    scopes: dict[str, dict[str, float]] = {switch: {} for switch in topology.switches}
    hosts: dict[str, set[str]] = {switch: set() for switch in topology.switches}
    uplinks: dict[str, dict[str, tuple[str, ...]]] = {switch: {} for switch in topology.switches}
    tops = [switch for switch in topology.switches if switch not in topology.parents]
    for link in topology.links.values():
        tables[keeper[link.name]][link.name] = link.capacity_bps
        if link.source in topology.switch_of:
            of_hosts = uplinks[keeper[link.name]]
            of_hosts[link.source] = (*of_hosts.get(link.source, ()), link.name)
        # With several tops (spines) the first one arbitrates, and has the other spines' links in scope too.
        over_source = set(above(link.source, topology))
        both = [node for node in above(link.target, topology) if node in over_source]
        for switch in dict.fromkeys([*both, *tops]):
            scopes[switch][link.name] = link.capacity_bps
    for host, tor in topology.switch_of.items():
        hosts[tor].add(host)
    return {
        switch: Domain(
            tables[switch],
            keeper,
            frozenset(hosts[switch]),
            scopes[switch],
            topology.parents.get(switch, (None,))[0],
            uplinks=uplinks[switch],
        )
        for switch in topology.switches
    }


def keepers(topology: Topology) -> dict[str, str]:
    """The switch that keeps each link's table."""
    return {link.name: topology.switch_of.get(link.source, link.source) for link in topology.links.values()}


def other_switches(path: Iterable[str], keeper: Mapping[str, str], own: str) -> tuple[str, ...]:
    """The switches that keep links of a path, but for the host's own: those that its claims are forwarded to."""
    return tuple(dict.fromkeys(keeper[link] for link in path if keeper[link] != own))


def above(node: str, topology: Topology) -> Iterator[str]:
    """The switches at and above a node, by each one's first parent."""
    while True:
        if node not in topology.switch_of:
            yield node
        if node not in topology.parents:
            return
        node = topology.parents[node][0]

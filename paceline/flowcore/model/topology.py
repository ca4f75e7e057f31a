"""Hosts, switches and the directed links between them.

Every node has parents, up to a top. So a path needs no search: climb from both ends, from the lower one first, until
the two sides meet. The kinds that scenarios have are layered, and both sides climb together; real racks may be of any
size and depth (topology_file.py).

    star   h* - sw
    tree   h* - tor* - edge* - agg
    clos   h* - tor* = spine*            every ToR on every spine

Where a node has several parents (a ToR below the spines), both sides take the same one, or the ones at the same
position, chosen by a hash of the flow's key: ECMP as switches do it, one path per flow, the same in every process and
on every machine (`hash()` is salted per process and would not be).

A host with several NICs is plugged into its *home*, the switch of its first one, and has a *rail* for each of the
further ones. host@rail is that end of it: a flow to b@r1 arrives at b's NIC r1, and leaves its source by that one's
NIC r1, where it has one, as routing by subnets does it; a flow to b goes between the first NICs.

Links are full duplex: two directed links per cable. The switch that keeps a link's table: domain.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import chain, pairwise

from paceline.flowcore.model.units import bps_from_gbps


class UnknownHostError(KeyError):
    """A path was asked for from or to something that is not a host of the topology."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class UnconnectedError(ValueError):
    """Two hosts have no switch in common."""


RAIL = "@"  # between a host's name and that of one of its NICs


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    source: str
    target: str
    capacity_bps: float  # u_l


@dataclass(frozen=True)
class Topology:
    """Build one with `star`, `tree` or `clos`. The mappings are plain dicts, so that it pickles."""

    kind: str
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: Mapping[str, Link]
    parents: Mapping[str, tuple[str, ...]]  # one tier up; the top tier is absent
    rails: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # host → further NIC → the switch it leads to

    @cached_property
    def switch_of(self) -> Mapping[str, str]:
        """The switch each host hangs on: its ToR."""
        return {host: self.parents[host][0] for host in self.hosts}

    @cached_property
    def fingerprint(self) -> str:
        """Equal for two processes that were given the same cables and rates."""
        cables = "\n".join(f"{link.name} {link.capacity_bps!r}" for link in self.links.values())
        return blake2b(cables.encode(), digest_size=8).hexdigest()

    def path(self, src_host: str, dst_host: str, flow_key: str) -> tuple[str, ...]:
        """Names of the links from one host to another, in order; empty from a host to itself."""
        (source, _), (target, rail) = self._end(src_host), self._end(dst_host)
        if source == target:
            return ()
        climb, descent = [source, self._port(source, rail)], [target, self._port(target, rail)]
        while climb[-1] != descent[-1]:
            self._climb(climb, descent, flow_key)
        nodes = climb + descent[-2::-1]  # the node where they meet is in both
        return tuple(link_name(source, target) for source, target in pairwise(nodes))

    def has(self, end: str) -> bool:
        """Whether it is a host, or host@rail of one."""
        host, at, rail = end.partition(RAIL)
        return host in self.switch_of and (not at or rail in self.rails.get(host, ()))

    def _end(self, name: str) -> tuple[str, str]:
        """The host and the rail of host or host@rail."""
        host, _, rail = name.partition(RAIL)
        if not self.has(name):
            raise UnknownHostError(f"no host {name!r} in this {self.kind} of {len(self.hosts)} hosts")
        return host, rail

    def _port(self, host: str, rail: str) -> str:
        """The switch that the host's NIC on this rail leads to; that of the first one, where it has none."""
        return self.rails.get(host, {}).get(rail) or self.switch_of[host]

    def _climb(self, climb: list[str], descent: list[str], flow_key: str) -> None:
        """One tier: the lower side, or both."""
        one, other = climb[-1], descent[-1]
        above_one, above_other = self.parents.get(one, ()), self.parents.get(other, ())
        lower = self._depth[one] - self._depth[other]
        if lower > 0:
            climb.append(above_one[_ecmp_choice(flow_key, len(above_one))])
        elif lower < 0:
            descent.append(above_other[_ecmp_choice(flow_key, len(above_other))])
        elif not above_one or not above_other:
            raise UnconnectedError(f"nothing connects {climb[0]} and {descent[0]}")
        elif above_one == above_other or (shared := tuple(node for node in above_one if node in above_other)):
            choices = above_one if above_one == above_other else shared
            both = choices[_ecmp_choice(flow_key, len(choices))]
            climb.append(both)
            descent.append(both)
        else:
            climb.append(above_one[_ecmp_choice(flow_key, len(above_one))])
            descent.append(above_other[_ecmp_choice(flow_key, len(above_other))])

    @cached_property
    def _depth(self) -> Mapping[str, int]:
        """Tiers above each switch."""
        depth: dict[str, int] = {}
        for switch in self.switches:
            way = [switch]  # upward, as far as it is not known
            while way:
                node = way[-1]
                unknown = [parent for parent in self.parents.get(node, ()) if parent not in depth]
                if unknown:
                    way += unknown
                else:
                    depth[node] = 1 + max((depth[parent] for parent in self.parents.get(node, ())), default=-1)
                    way.pop()
        return depth

    def nics(self, host: str) -> tuple[Link, ...]:
        """The links of all its NICs, outward, the first one's first."""
        switches = (self.switch_of[host], *self.rails.get(host, {}).values())
        return tuple(self.links[link_name(host, switch)] for switch in switches)


def link_name(source: str, target: str) -> str:
    return f"{source}->{target}"


def star(hosts: int, link_gbps: float) -> Topology:
    """Every host on one switch."""
    return star_of(_names("h", hosts), link_gbps)


def star_of(hosts: Sequence[str], link_gbps: float) -> Topology:
    """These hosts on one switch; all that a host on its own needs to know."""
    return _wire("star", tuple(hosts), ("sw",), _spread(hosts, ("sw",), link_gbps))


def tree(servers_per_tor: int, tors_per_edge: int, edges: int, link_gbps: Sequence[float]) -> Topology:
    """Hosts under ToRs under edge switches under one aggregation switch; one link rate per tier."""
    host_gbps, tor_gbps, edge_gbps = link_gbps
    edge_names = _names("edge", edges)
    tors = _names("tor", tors_per_edge * edges)
    hosts = _names("h", servers_per_tor * tors_per_edge * edges)
    uplinks = chain(
        _spread(hosts, tors, host_gbps),
        _spread(tors, edge_names, tor_gbps),
        _spread(edge_names, ("agg",), edge_gbps),
    )
    return _wire("tree", hosts, (*tors, *edge_names, "agg"), uplinks)


def clos(servers_per_tor: int, tors: int, spines: int, link_gbps: Sequence[float]) -> Topology:
    """Hosts under ToRs, every ToR on every spine; link rates host–ToR and ToR–spine."""
    host_gbps, tor_gbps = link_gbps
    spine_names = _names("spine", spines)
    tor_names = _names("tor", tors)
    hosts = _names("h", servers_per_tor * tors)
    uplinks = chain(
        _spread(hosts, tor_names, host_gbps),
        ((tor, spine_names, tor_gbps) for tor in tor_names),
    )
    return _wire("clos", hosts, (*tor_names, *spine_names), uplinks)


def racks(places: Sequence[tuple[str, str, str]], link_gbps: Sequence[float]) -> Topology:
    """A tree as it really is: for each host its rack, pod and core switch; one link rate per tier."""
    host_gbps, rack_gbps, pod_gbps = link_gbps
    hosts = _names("h", len(places))
    pod_of = {rack: pod for rack, pod, _ in places}
    core_of = {pod: core for _, pod, core in places}
    cores = tuple(dict.fromkeys(core_of.values()))
    if len(cores) > 1:
        raise ValueError(f"{len(cores)} core switches that nothing connects")
    uplinks = chain(
        ((host, (rack,), host_gbps) for host, (rack, _, _) in zip(hosts, places, strict=True)),
        ((rack, (pod,), rack_gbps) for rack, pod in pod_of.items()),
        ((pod, (core,), pod_gbps) for pod, core in core_of.items()),
    )
    return _wire("racks", hosts, (*pod_of, *core_of, *cores), uplinks)


def wired(
    hosts: Sequence[str],
    switches: Sequence[str],
    uplinks: Mapping[str, Sequence[tuple[str, float]]],
    rails: Mapping[str, Mapping[str, str]],
) -> Topology:
    """Any cables: for each node its parents, with the rate of the cable to each. A host's first parent is its home, and
    its further ones are the switches of its rails."""
    links: dict[str, Link] = {}
    for node, above in uplinks.items():
        for parent, gbps in above:
            _add_cable(links, node, parent, gbps)
    homes = {host: (uplinks[host][0][0],) for host in hosts}
    above_switches = {node: tuple(parent for parent, _ in above) for node, above in uplinks.items()}
    parents = {node: above for node, above in above_switches.items() if above} | homes
    return Topology("file", tuple(hosts), tuple(switches), links, parents, rails)


# A node, its parents, and the rate of the cable to each.
_Uplinks = tuple[str, tuple[str, ...], float]


def _names(prefix: str, count: int) -> tuple[str, ...]:
    if count < 1:
        raise ValueError(f"a topology needs at least one {prefix!r} node, not {count}")
    return tuple(f"{prefix}{number}" for number in range(count))


def _spread(children: Sequence[str], parents: Sequence[str], gbps: float) -> Iterable[_Uplinks]:
    """Children in order under parents in order, equally many under each."""
    per_parent = len(children) // len(parents)
    return ((child, (parents[number // per_parent],), gbps) for number, child in enumerate(children))


def _wire(kind: str, hosts: tuple[str, ...], switches: tuple[str, ...], uplinks: Iterable[_Uplinks]) -> Topology:
    links: dict[str, Link] = {}
    parents_of: dict[str, tuple[str, ...]] = {}
    for node, parents, gbps in uplinks:
        parents_of[node] = parents
        for parent in parents:
            _add_cable(links, node, parent, gbps)
    return Topology(kind, hosts, switches, links, parents_of)


def _add_cable(links: dict[str, Link], node: str, parent: str, gbps: float) -> None:
    if not gbps > 0:
        raise ValueError(f"the links of {node} must be faster than 0 Gbit/s, not {gbps}")
    capacity_bps = bps_from_gbps(gbps)
    for source, target in ((node, parent), (parent, node)):
        name = link_name(source, target)
        links[name] = Link(name, source, target, capacity_bps)


def _ecmp_choice(flow_key: str, choices: int) -> int:
    if choices == 1:
        return 0
    return int.from_bytes(blake2b(flow_key.encode(), digest_size=8).digest()) % choices

"""Hosts, switches and the directed links between them.

Every topology here is layered: each node has parents one tier up, all nodes of a tier have equally many, and
hosts are the bottom tier. So a path needs no search: climb from both ends, one tier at a time, until the two
sides meet.

    star   h* - sw
    tree   h* - tor* - edge* - agg
    clos   h* - tor* = spine*            every ToR on every spine

Where a node has several parents (a ToR below the spines), both sides take the one at the same position,
chosen by a hash of the flow's key: ECMP as switches do it, one path per flow, the same in every process and
on every machine (`hash()` is salted per process and would not be).

Links are full duplex: two directed links per cable. The switch that keeps a link's table: domain.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain, pairwise

from paceline.flowcore.model.units import bps_from_gbps


class UnknownHostError(KeyError):
    """A path was asked for from or to something that is not a host of the topology."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


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
        for host in (src_host, dst_host):
            if host not in self.switch_of:
                raise UnknownHostError(f"no host {host!r} in this {self.kind} of {len(self.hosts)} hosts")
        climb, descent = [src_host], [dst_host]
        while climb[-1] != descent[-1]:
            above_src, above_dst = self.parents[climb[-1]], self.parents[descent[-1]]
            choice = _ecmp_choice(flow_key, len(above_src))
            climb.append(above_src[choice])
            descent.append(above_dst[choice])
        nodes = climb + descent[-2::-1]  # the node where they meet is in both
        return tuple(link_name(source, target) for source, target in pairwise(nodes))


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
        if not gbps > 0:
            raise ValueError(f"the links of {node} must be faster than 0 Gbit/s, not {gbps}")
        parents_of[node] = parents
        capacity_bps = bps_from_gbps(gbps)
        for parent in parents:
            for source, target in ((node, parent), (parent, node)):
                name = link_name(source, target)
                links[name] = Link(name, source, target, capacity_bps)
    return Topology(kind, hosts, switches, links, parents_of)


def _ecmp_choice(flow_key: str, choices: int) -> int:
    if choices == 1:
        return 0
    return int.from_bytes(blake2b(flow_key.encode(), digest_size=8).digest()) % choices

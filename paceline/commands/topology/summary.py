"""A topology in a few lines, and what another one has otherwise."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address

from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.topology_file import ClusterMap
from paceline.flowcore.model.units import BPS_PER_GBPS
from paceline.flowcore.model.uplinks import Uplink, disagreement, uplinks

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Summary:
    hosts: int
    hosts_with_rails: int
    racks: int
    rack_sizes: tuple[int, int]  # the smallest and the largest
    switches: int
    host_gbps: tuple[float, float]
    addresses: int
    networks: int
    names: int
    remarks: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        rails = f" ({self.hosts_with_rails} with several NICs)" if self.hosts_with_rails else ""
        known = f"{self.addresses} addresses, {self.networks} networks, {self.names} names"
        return (
            f"good: {self.hosts} hosts{rails} of {_span(self.host_gbps)} Gbit/s in {self.racks} racks of "
            f"{_span(self.rack_sizes)}, {self.switches} switches, {known}"
        )

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Change:
    added_hosts: tuple[str, ...]
    added_switches: tuple[str, ...]
    removed: tuple[str, ...]
    contradictions: tuple[str, ...]  # daemons with the one file refuse daemons with the other

    def lines(self) -> Iterable[str]:
        yield f"added: hosts: {_some(self.added_hosts)}; switches: {_some(self.added_switches)}"
        yield f"removed: {_some(self.removed)}"
        for one in self.contradictions[:MOST_NAMED]:
            yield f"changed: {one}"
        if len(self.contradictions) > MOST_NAMED:
            yield f"changed: {len(self.contradictions) - MOST_NAMED} more"

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def summary(cluster: ClusterMap) -> Summary:
    topology = cluster.topology
    sizes = Counter(topology.switch_of.values())
    rates = [link.capacity_bps / BPS_PER_GBPS for host in topology.hosts for link in topology.nics(host)]
    kinds = Counter(_kind(address) for own in cluster.addresses.values() for address in own)
    return Summary(
        len(topology.hosts),
        len(topology.rails),
        len(sizes),
        (min(sizes.values()), max(sizes.values())),
        len(topology.switches),
        (min(rates), max(rates)),
        kinds["address"],
        kinds["network"],
        kinds["name"],
        tuple(_remarks(cluster)),
    )


def _remarks(cluster: ClusterMap) -> Iterable[str]:
    topology = cluster.topology
    if silent := [end for end, own in cluster.addresses.items() if not own]:
        yield f"no address: {_some(silent)}: what these hosts' jobs send is not known as theirs"
    if cluster.listen and (deaf := [name for name in topology.switches if name not in cluster.listen]):
        yield f"no `listen`: {_some(deaf)}"
    down: Counter[str] = Counter()
    up: Counter[str] = Counter()
    for link in topology.links.values():
        if link.target in topology.parents.get(link.source, ()):
            up[link.source] += int(link.capacity_bps)
            down[link.target] += int(link.capacity_bps)
    ratios = {name: down[name] / up[name] for name in topology.switches if up[name]}
    if ratios:
        worst = max(ratios, key=lambda name: ratios[name])
        yield (
            f"most below its uplinks: {worst}, {down[worst] / BPS_PER_GBPS:g} Gbit/s over "
            f"{up[worst] / BPS_PER_GBPS:g} ({ratios[worst]:.2g} to 1)"
        )


def change(before: Topology, after: Topology) -> Change:
    nodes_before, nodes_after = {*before.hosts, *before.switches}, {*after.hosts, *after.switches}
    both = [node for node in (*after.switches, *after.hosts) if node in nodes_before]
    found = (disagreement(before, own) for node in both if (own := _own_uplink(after, node)))
    return Change(
        tuple(host for host in after.hosts if host not in nodes_before),
        tuple(switch for switch in after.switches if switch not in nodes_before),
        tuple(sorted(nodes_before - nodes_after)),
        tuple(one.replace(" there", " now").replace(" here", " before") for one in found if one),
    )


def _own_uplink(topology: Topology, node: str) -> tuple[Uplink, ...]:
    return uplinks(topology, node)[:1] or (Uplink(node, (), ()),)


def _kind(address: str) -> str:
    if "/" in address:
        return "network"
    try:
        ip_address(address)
    except ValueError:
        return "name"
    return "address"


def _span(both: tuple[float, float]) -> str:
    return f"{both[0]:g}" if both[0] == both[1] else f"{both[0]:g} to {both[1]:g}"


def _some(names: Iterable[str]) -> str:
    every = list(names)
    shown = ", ".join(every[:MOST_NAMED]) or "none"
    return shown + (f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else "")

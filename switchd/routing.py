"""The routing table of a switch: which neighbour a message to another switch goes to.

A message goes down to a child that its destination is, or is below; else up to a parent. Where there are several
parents (a ToR has all spines), or children (pods above one rack), each destination has its own order of them, by a
hash, and the first that is connected is taken. So spines share the relaying, a lost spine's part is divided among the
rest, and messages between two switches stay on one path, in order, as long as no switch is lost. Messages only go up
and then down, so none can loop: a message that came from above and is not for a switch below has no next hop.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

from paceline.flowcore.model.topology import Topology


class RoutingTable:
    def __init__(self, topology: Topology, name: str) -> None:
        self.parents = topology.parents.get(name, ())
        self.children = frozenset(node for node in topology.switches if name in topology.parents.get(node, ()))
        self.other_switches = frozenset(topology.switches) - {name}
        self._children_towards = {
            switch: _ordered(children, switch)
            for switch in self.other_switches
            if (children := _children_above(topology, switch, name))
        }
        self._upward = {
            switch: _ordered(self.parents, switch)
            for switch in self.other_switches
            if switch not in self._children_towards and switch not in self.parents
        }
        self.hosts_below = Counter(
            child
            for host in topology.hosts
            for child in {
                one for switch in _plugged_into(host, topology) for one in self._children_towards.get(switch, ())
            }
        )

    def on_reverse_path(self, neighbour: str, origin: str) -> bool:
        """Whether a message from `origin` can come by way of this neighbour."""
        below = self._children_towards.get(origin)
        return neighbour in below if below else neighbour in self.parents and origin in self.other_switches

    def next_hop(self, switch: str, neighbours: set[str], *, from_above: bool = False) -> str | None:
        """The connected neighbour on the way to `switch`, or None if there is none."""
        if children := self._children_towards.get(switch):
            return next((child for child in children if child in neighbours), None)
        if from_above:
            return None
        if switch in self.parents:
            return switch if switch in neighbours else None
        return next((parent for parent in self._upward.get(switch, ()) if parent in neighbours), None)

    def unreachable(self, neighbours: set[str]) -> set[str]:
        return {switch for switch in self.other_switches if self.next_hop(switch, neighbours) is None}


def _ordered(neighbours: Iterable[str], switch: str) -> tuple[str, ...]:
    """By a hash that is the same in every process, as `hash` is not."""
    return tuple(sorted(neighbours, key=lambda one: blake2b(f"{switch} {one}".encode(), digest_size=8).digest()))


def _children_above(topology: Topology, switch: str, name: str) -> set[str]:
    """The children of `name` that `switch` is, or is below."""
    children, level = set(), {switch}
    while level:
        found = {node for node in level if name in topology.parents.get(node, ())}
        children |= found
        level = {parent for node in level - found for parent in topology.parents.get(node, ())}
    return children


def _plugged_into(host: str, topology: Topology) -> set[str]:
    return {topology.switch_of[host], *topology.rails.get(host, {}).values()}

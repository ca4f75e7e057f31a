"""The routing table of a switch: which neighbour a message to another switch goes to.

A message goes down to the child that its destination is, or is below; else up to a parent. Where there are several
parents (a ToR has all spines), each destination has its own order of them, by a hash, and the first that is connected
is taken. So spines share the relaying, a lost spine's part is divided among the rest, and messages between two switches
stay on one path, in order, as long as no switch is lost. Messages only go up and then down, so none can loop: a message
that came from above and is not for a switch below has no next hop.
"""

from collections import Counter
from hashlib import blake2b

from paceline.flowcore.model.topology import Topology


class RoutingTable:
    def __init__(self, topology: Topology, name: str) -> None:
        self.parents = topology.parents.get(name, ())
        self.children = frozenset(node for node in topology.switches if name in topology.parents.get(node, ()))
        self.other_switches = frozenset(topology.switches) - {name}
        self._child_towards = {
            switch: child
            for switch in self.other_switches
            if (child := _child_above(topology, switch, name)) is not None
        }
        self._upward = {
            switch: _ordered(self.parents, switch)
            for switch in self.other_switches
            if switch not in self._child_towards and switch not in self.parents
        }
        self.hosts_below = Counter(
            child for tor in topology.switch_of.values() if (child := self._child_towards.get(tor)) is not None
        )

    def on_reverse_path(self, neighbour: str, origin: str) -> bool:
        """Whether a message from `origin` can come by way of this neighbour."""
        below = self._child_towards.get(origin)
        return below == neighbour if below is not None else neighbour in self.parents and origin in self.other_switches

    def next_hop(self, switch: str, neighbours: set[str], *, from_above: bool = False) -> str | None:
        """The connected neighbour on the way to `switch`, or None if there is none."""
        child = self._child_towards.get(switch)
        if child is not None:
            return child if child in neighbours else None
        if from_above:
            return None
        if switch in self.parents:
            return switch if switch in neighbours else None
        return next((parent for parent in self._upward.get(switch, ()) if parent in neighbours), None)

    def unreachable(self, neighbours: set[str]) -> set[str]:
        return {switch for switch in self.other_switches if self.next_hop(switch, neighbours) is None}


def _ordered(parents: tuple[str, ...], switch: str) -> tuple[str, ...]:
    """By a hash that is the same in every process, as `hash` is not."""
    return tuple(sorted(parents, key=lambda parent: blake2b(f"{switch} {parent}".encode(), digest_size=8).digest()))


def _child_above(topology: Topology, switch: str, name: str) -> str | None:
    """The child of `name` that `switch` is, or is below."""
    node: str | None = switch
    while node is not None:
        parents = topology.parents.get(node, ())
        if name in parents:
            return node
        node = parents[0] if parents else None
    return None

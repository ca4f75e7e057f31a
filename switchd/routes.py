"""Which neighbour a letter to another switch goes to: down towards it if it is below us, else up.

Going up may choose any parent (a ToR has all spines): each destination has its own order of them, by a hash, and the
first that is reachable is taken. So spines share the relaying, a lost one's part is divided among the rest, and letters
between two switches stay on one way, in order, as long as nobody is lost. Letters only go up and then down, so none
can circle: one that came from above and is not for below us has nowhere to go.
"""

from collections import Counter
from hashlib import blake2b

from paceline.flowcore.model.topology import Topology


class LetterRoutes:
    def __init__(self, topology: Topology, name: str) -> None:
        self.parents = topology.parents.get(name, ())
        self.children = frozenset(node for node in topology.switches if name in topology.parents.get(node, ()))
        self.others = frozenset(topology.switches) - {name}
        self._child_towards = {
            switch: child for switch in self.others if (child := _child_above(topology, switch, name)) is not None
        }
        self._upward = {
            switch: tuple(sorted(self.parents, key=lambda parent, switch=switch: _hash(f"{switch} {parent}")))
            for switch in self.others
            if switch not in self._child_towards and switch not in self.parents
        }
        self.hosts_below = Counter(
            child for tor in topology.switch_of.values() if (child := self._child_towards.get(tor)) is not None
        )

    def may_bring(self, neighbour: str, origin: str) -> bool:
        """Whether a letter from `origin` can come to us by way of this neighbour."""
        below = self._child_towards.get(origin)
        return below == neighbour if below is not None else neighbour in self.parents and origin in self.others

    def next_hop(self, switch: str, neighbours: set[str], *, from_above: bool = False) -> str | None:
        """The neighbour to hand it to, or None if no live one leads there."""
        child = self._child_towards.get(switch)
        if child is not None:
            return child if child in neighbours else None
        if from_above:
            return None
        if switch in self.parents:
            return switch if switch in neighbours else None
        return next((parent for parent in self._upward.get(switch, ()) if parent in neighbours), None)

    def unreachable(self, neighbours: set[str]) -> set[str]:
        return {switch for switch in self.others if self.next_hop(switch, neighbours) is None}


def _hash(text: str) -> bytes:
    """The same in every process, as `hash` is not."""
    return blake2b(text.encode(), digest_size=8).digest()


def _child_above(topology: Topology, switch: str, name: str) -> str | None:
    """The child of `name` that `switch` is, or is below."""
    node: str | None = switch
    while node is not None:
        parents = topology.parents.get(node, ())
        if name in parents:
            return node
        node = parents[0] if parents else None
    return None

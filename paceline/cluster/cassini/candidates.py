"""Placements that a scheduler would accept as readily as its first (CASSINI §4.2, step 1).

Most placements say which servers are better and leave ties to the order in which servers come; asked again with the
servers in another order they give another answer of the same worth. One that draws at random draws again.
"""

from collections.abc import Callable
from copy import copy

from paceline.cluster.cassini.ranking import MOST_CANDIDATES
from paceline.cluster.state import ClusterState, Workers


def candidates(
    place: Callable[[ClusterState], Workers | None], state: ClusterState, most: int = MOST_CANDIDATES
) -> list[Workers]:
    """Up to so many that differ, the scheduler's own choice first; none: the job must wait."""
    servers = list(state.free)
    found: list[Workers] = []
    for number in range(most):
        begin = number * len(servers) // most
        turned = copy(state)
        turned.free = {server: state.free[server] for server in servers[begin:] + servers[:begin]}
        workers = place(turned)
        if workers is None:
            return found
        if workers not in found:
            found.append(workers)
    return found

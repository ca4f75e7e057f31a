"""Placements, by the name on the command line: `place(job, state)` gives the workers, or None: wait.

A new placement is one file here and one line below.
"""

from collections.abc import Callable

from paceline.cluster.placement import first_fit, least_loaded, lwf, scattered
from paceline.cluster.state import ClusterState, Request, Workers

Placement = Callable[[Request, ClusterState], Workers | None]

PLACEMENTS: dict[str, Placement] = {
    "random": scattered.place,
    "first-fit": first_fit.place,
    "list": least_loaded.place,
    "lwf": lwf.place,
}

__all__ = ["PLACEMENTS", "Placement"]

"""ElasticFlow's placement as Titan compares with it (§V-A): best fit on as few machines as possible.

A job gets the machine whose free GPUs are closest to its number of workers, idle or not; one that fits on none gets
whole idle machines and the tightest for the rest, or, if there are too few, the largest pieces there are.
"""

from cluster.schedulers.tiresias import consolidated
from cluster.state import ClusterState, Request, Workers, fill


def place(job: Request, state: ClusterState) -> Workers | None:
    if (fitting := consolidated(job.gpus, state.free, state.gpus_per_server)) is not None:
        return fitting
    return fill(sorted(state.free, key=lambda server: -state.free[server]), job.gpus, state.free)

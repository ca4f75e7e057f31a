"""ElasticFlow's placement as Titan compares with it (§V-A): best fit on as few machines as possible.

A job gets the machine whose free GPUs are closest to its number of workers, idle or not; a job that fits on none gets
whole idle machines and the tightest for the rest, or, if there are too few, the largest pieces there are. The number
of GPUs is rounded up to a power of two where there are as many (§II-A).
"""

from paceline.cluster.schedulers.tiresias import consolidated
from paceline.cluster.state import ClusterState, Request, Workers, fill


def place(job: Request, state: ClusterState) -> Workers | None:
    rounded = 1 << (job.gpus - 1).bit_length()
    gpus = rounded if rounded <= state.free_gpus else job.gpus
    if (fitting := consolidated(gpus, state.free, state.gpus_per_server)) is not None:
        return fitting
    return fill(sorted(state.free, key=lambda server: -state.free[server]), gpus, state.free)

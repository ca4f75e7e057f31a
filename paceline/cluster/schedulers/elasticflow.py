"""ElasticFlow's placement as Titan compares with it (§V-A): best fit on as few machines as possible.

A job gets the machine whose free GPUs are closest to its number of workers, idle or not; a job that fits on none gets
whole idle machines and the tightest for the rest, or, if there are too few, the largest pieces there are. The number
of GPUs is rounded up to a power of two where there are as many (§II-A).

The paper says "closest", and that this keeps a job together but fragments machines. Two readings:

    elasticflow        the tightest machine that holds the job
    elasticflow-exact  a machine whose free GPUs are exactly as many, or else an idle one: pieces are left for jobs that
                       fill them, as a buddy system does. Where no machine is idle, as elasticflow
"""

from paceline.cluster.schedulers.tiresias import consolidated, consolidated_exactly
from paceline.cluster.state import ClusterState, Request, Workers, fill


def place(job: Request, state: ClusterState) -> Workers | None:
    gpus = _rounded(job, state)
    if (fitting := consolidated(gpus, state.free, state.gpus_per_server)) is not None:
        return fitting
    return fill(sorted(state.free, key=lambda server: -state.free[server]), gpus, state.free)


def place_exactly(job: Request, state: ClusterState) -> Workers | None:
    exact = consolidated_exactly(_rounded(job, state), state.free, state.gpus_per_server)
    return exact if exact is not None else place(job, state)


def _rounded(job: Request, state: ClusterState) -> int:
    rounded = 1 << (job.gpus - 1).bit_length()
    return rounded if rounded <= state.free_gpus else job.gpus

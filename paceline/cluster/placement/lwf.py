"""lwf: least workload first, LWF-κ (Ada-SRSF, Algorithm 1).

    n ≤ κ    the n GPUs with the least load, wherever they are, as list scheduling does
    n > κ    servers by their total load, and their GPUs server by server: fewer servers, less to communicate

κ = 1 is what the paper finds best: single GPUs balance the load, everything larger stays together.
"""

from paceline.cluster.placement import least_loaded
from paceline.cluster.state import ClusterState, Request, Workers, fill

KAPPA = 1


def place(job: Request, state: ClusterState, kappa: int = KAPPA) -> Workers | None:
    if job.gpus <= kappa:
        return least_loaded.place(job, state)
    loads_s = state.server_loads_s()
    return fill(sorted(state.free, key=loads_s.__getitem__), job.gpus, state.free)

"""list: list scheduling (LS in Ada-SRSF, §V): the GPUs with the least load, wherever they are.

Where loads are equal, as they are where no jobs share a GPU, those of the least loaded server first.
"""

from paceline.cluster.state import ClusterState, Request, Workers, gather


def place(job: Request, state: ClusterState) -> Workers | None:
    loads_s = state.server_loads_s()
    gpus = sorted(state.open_gpus(), key=lambda gpu: (gpu[0], loads_s[gpu[1]]))
    return gather([server for _, server in gpus[: job.gpus]]) if len(gpus) >= job.gpus else None

"""list: list scheduling (LS in Ada-SRSF, §V): the servers with the most free GPUs first, each filled in turn."""

from cluster.state import ClusterState, Request, Workers, fill


def place(job: Request, state: ClusterState) -> Workers | None:
    return fill(sorted(state.free, key=lambda server: -state.free[server]), job.gpus, state.free)

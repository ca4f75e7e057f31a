"""first-fit: the first free GPUs in the order of the servers (FF in Ada-SRSF, §V)."""

from paceline.cluster.state import ClusterState, Request, Workers, fill


def place(job: Request, state: ClusterState) -> Workers | None:
    return fill(list(state.free), job.gpus, state.free)

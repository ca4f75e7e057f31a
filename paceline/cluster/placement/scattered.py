"""random: any free GPUs, each as likely as any other (RAND in Ada-SRSF, §V)."""

from paceline.cluster.state import ClusterState, Request, Workers, gather


def place(job: Request, state: ClusterState) -> Workers | None:
    if state.free_gpus < job.gpus:
        return None
    return gather(state.draws.sample(state.open_servers(), job.gpus))

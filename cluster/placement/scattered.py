"""random: any free GPUs, each as likely as any other (RAND in Ada-SRSF, §V)."""

from cluster.state import ClusterState, Request, Workers


def place(job: Request, state: ClusterState) -> Workers | None:
    if state.free_gpus < job.gpus:
        return None
    gpus = [server for server, free in state.free.items() for _ in range(free)]
    workers: Workers = {}
    for server in state.draws.sample(gpus, job.gpus):
        workers[server] = workers.get(server, 0) + 1
    return workers

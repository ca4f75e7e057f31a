"""HiveD's placement as Titan compares with it (§II-B, §V-A): fragments first.

Pieces of machines in use are taken before idle machines: the tightest piece that holds all that is left, or else the
largest. Workers are put down in order, whatever they exchange.
"""

from paceline.cluster.state import ClusterState, Request, Workers


def place(job: Request, state: ClusterState) -> Workers | None:
    if state.free_gpus < job.gpus:
        return None
    fragments = {server: free for server, free in state.free.items() if 0 < free < state.gpus_per_server}
    idle = [server for server, free in state.free.items() if free == state.gpus_per_server]
    workers: Workers = {}
    left = job.gpus
    while left:
        holding = [server for server, free in fragments.items() if free >= left]
        if holding:
            chosen = min(holding, key=fragments.__getitem__)
        elif fragments:
            chosen = max(fragments, key=fragments.__getitem__)
        else:
            chosen = idle.pop(0)
        workers[chosen] = min(left, fragments.pop(chosen, state.gpus_per_server))
        left -= workers[chosen]
    return workers

"""What one job is offered in a round: the GPUs that are free, and those it may take from jobs that rank behind it.

An offer is the cluster as this job sees it, so a plain `place(job, state)` that looks only at `free` works on it too.
"""

from dataclasses import dataclass, field

from cluster.state import ClusterState, Workers


@dataclass(slots=True)
class Offer(ClusterState):
    now_s: float = 0.0
    preemptible: Workers = field(default_factory=dict)  # beyond `free`; servers without any may be absent

    @staticmethod
    def of(state: ClusterState, now_s: float) -> "Offer":
        offer = Offer(state.gpus_per_server, state.rack_of, state.draws, now_s=now_s)
        offer.free, offer.placed = dict(state.free), dict(state.placed)
        offer.used_gpus, offer.used_servers = state.used_gpus, state.used_servers
        return offer

    def with_preemption(self) -> Workers:
        """All GPUs within reach, server by server."""
        reach = dict(self.free)
        for server, gpus in self.preemptible.items():
            reach[server] += gpus
        return reach

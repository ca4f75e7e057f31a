"""What a run has beyond its scenario where the cluster is shared, as the paper's testbed is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedCluster:
    """Jobs wait for GPUs (bench/jobs/gpu_queue.py), and every host may send to the others, outside all jobs."""

    gpus_per_host: int
    others_every_s: float | None = None  # a new connection to a host drawn anew (bench/workload/new_connections.py)
    others_last_s: tuple[float, float] = (0.2, 2.0)  # shortest and longest

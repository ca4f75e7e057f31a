"""The flows of one iteration of a job, and which flow feeds which.

A flow may only forward what has reached its sender. With F_i the bytes flow i has sent in this iteration,

    F_i  <=  min over upstream j of F_j  +  window_i                                        (MLCC, IV-C)

Ring all-reduce of a model of M bytes over n workers: each sends 2(n-1)/n·M to the next, in chunks of M/n. The
feeder is the flow arriving at the sender; the first chunk is the sender's own and needs no feeder: window = M/n.
Deviation from §IV-C: the paper's F_i <= F_j has no window, which taken literally lets a ring move only in
perfect lockstep: no member may send first.

Parameter server, M split evenly over the servers: every worker pushes each server its shard (no upstream) and
pulls it back. A server can only broadcast what every worker has pushed to it: the upstream of a pull are all its
server's pushes, window = 0.

Where an iteration has several bursts, each is such an exchange of its part of the model: a ring's chunks are smaller.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from paceline.flowcore.model.scenario import JobSpec, Pattern
from paceline.flowcore.model.topology import RAIL
from paceline.flowcore.model.units import bytes_from_mb


class Role(StrEnum):
    RING = "ring"
    PUSH = "push"  # worker to server: the paper's aggregation flow
    PULL = "pull"  # server to worker: the paper's broadcast flow
    OTHER = "other"  # no job's: cross traffic, which no host limits


class FlowId(NamedTuple):
    """Names a flow across iterations; a host that is both worker and server is why the role is part of it."""

    job: str
    source: str
    target: str
    role: Role

    @property
    def local(self) -> bool:
        """Within one host: it never touches the network and counts as sent the moment its upstream flows allow."""
        return self.source == self.target

    def __str__(self) -> str:
        return f"{self.job}/{self.role}/{self.source}>{self.target}"


def arriving(job: str, end: str, host: str, role: Role) -> FlowId:
    """The flow to a host from one end of another, as its sender calls it: what comes from a@r1 to b is a's to b@r1."""
    source, at, rail = end.partition(RAIL)
    return FlowId(job, source, f"{host}{at}{rail}", role)


@dataclass(frozen=True, slots=True)
class FlowSpec:
    flow: FlowId
    size_bytes: float
    upstream: tuple[FlowId, ...]
    window_bytes: float  # how far it may be ahead of the slowest feeder


def flows_of(job: JobSpec) -> tuple[FlowSpec, ...]:
    """Every flow of one iteration, local ones included: a pull waits for the push from its own host too."""
    match job.pattern:
        case Pattern.ALLREDUCE:
            return _ring(job)
        case Pattern.PS:
            return _parameter_server(job)


def downstream_of(specs: Iterable[FlowSpec]) -> Mapping[FlowId, tuple[FlowId, ...]]:
    """For each flow, the flows that it feeds: its movement concerns them."""
    fed: dict[FlowId, list[FlowId]] = {}
    for spec in specs:
        fed.setdefault(spec.flow, [])
        for feeder in spec.upstream:
            fed.setdefault(feeder, []).append(spec.flow)
    return {flow: tuple(targets) for flow, targets in fed.items()}


def grain_bytes(spec: FlowSpec) -> float:
    """The piece that a start-after dependency waits for whole: a ring's chunk, else the flow."""
    return spec.window_bytes if 0.0 < spec.window_bytes < math.inf else spec.size_bytes


def _ring(job: JobSpec) -> tuple[FlowSpec, ...]:
    members = len(job.workers)
    chunk_bytes = bytes_from_mb(job.model_mb) / members
    size_bytes = 2 * (members - 1) * chunk_bytes
    window_bytes = chunk_bytes / job.bursts
    flows = [
        FlowId(job.name, worker, job.workers[(rank + 1) % members], Role.RING)
        for rank, worker in enumerate(job.workers)
    ]
    # flows[-1], which closes the ring, is the feeder of flows[0].
    return tuple(FlowSpec(flow, size_bytes, (flows[rank - 1],), window_bytes) for rank, flow in enumerate(flows))


def _parameter_server(job: JobSpec) -> tuple[FlowSpec, ...]:
    shard_bytes = bytes_from_mb(job.model_mb) / len(job.servers)
    specs: list[FlowSpec] = []
    for server in job.servers:
        pushes = tuple(FlowId(job.name, worker, server, Role.PUSH) for worker in job.workers)
        pulls = tuple(FlowId(job.name, server, worker, Role.PULL) for worker in job.workers)
        specs += (FlowSpec(push, shard_bytes, (), math.inf) for push in pushes)
        specs += (FlowSpec(pull, shard_bytes, pushes, 0.0) for pull in pulls)
    return tuple(specs)

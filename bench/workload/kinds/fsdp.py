"""torch's FSDP2: parameters are sharded, each unit gathers its own in both passes and scatters its gradients.

A unit of P bytes over n workers, in units of (n-1)/n·P per worker: all-gather 1 in the forward and 1 in the backward
pass; reduce-scatter 2, because gloo has none and torch makes it an all-reduce. So the units together are half of the
scenario's model. torch gathers a unit while the unit before it computes in the backward pass, and waits in the forward.
"""

from math import ceil

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

from bench.workload.assignment import Assignment
from bench.workload.training import LEARNING_RATE, ROW_BYTES, WIDTH, Compute, Iterate, train

UNITS = 5
SENT_TIMES = 4  # the units' bytes × (n-1)/n, where an all-reduce sends 2


class Unit(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, rows, bias=False)

    def forward(self, value: torch.Tensor, batch: torch.Tensor, compute_s: float) -> torch.Tensor:
        output: torch.Tensor = Compute.apply(value + self.layer(batch).square().mean(), compute_s)
        return output.clone()  # FSDP's hooks would not survive on a view


class Model(nn.Module):
    def __init__(self, model_bytes: float) -> None:
        super().__init__()
        rows = ceil(model_bytes / ROW_BYTES / UNITS)
        self.embedding = nn.Parameter(torch.zeros(WIDTH))
        self.units = nn.ModuleList(Unit(rows) for _ in range(UNITS))

    def forward(self, batch: torch.Tensor, compute_s: float) -> torch.Tensor:
        value = self.embedding.mean()
        for unit in self.units:
            value = unit(value, batch, compute_s / UNITS)
        return value.clone()


def prepare(own: Assignment) -> Iterate:
    model = Model(own.job.model_mb * 1e6 * 2 / SENT_TIMES)
    for unit in model.units:
        fully_shard(unit)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    batch = torch.randn(1, WIDTH)

    def iterate(compute_s: float) -> None:
        optimizer.zero_grad()
        model(batch, compute_s).backward()
        optimizer.step()

    return iterate


def main(assignment: str) -> None:
    train(assignment, prepare)

"""DDP whose buckets travel while earlier layers still compute.

The backward pass computes layer by layer, and a layer's gradients are one bucket: all but the last have the computing
of the layers before them to hide behind.
"""

from math import ceil

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.workload.assignment import Assignment
from bench.workload.training import LEARNING_RATE, ROW_BYTES, WIDTH, Compute, Iterate, train

LAYERS = 8


class Chain(nn.Module):
    def __init__(self, model_bytes: float) -> None:
        super().__init__()
        rows = ceil(model_bytes / ROW_BYTES / LAYERS)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, rows, bias=False) for _ in range(LAYERS))

    def forward(self, batch: torch.Tensor, compute_s: float) -> torch.Tensor:
        value = torch.zeros(())
        for layer in self.layers:
            # Computing comes after the layer here, so before the layer's gradients in the backward pass.
            value = Compute.apply(value + layer(batch).square().mean(), compute_s / LAYERS)
        return value


def prepare(own: Assignment) -> Iterate:
    model_bytes = own.job.model_mb * 1e6
    bucket_mib = model_bytes / LAYERS / 2**20
    model = DistributedDataParallel(Chain(model_bytes), gradient_as_bucket_view=True, bucket_cap_mb=bucket_mib)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    batch = torch.randn(1, WIDTH)

    def iterate(compute_s: float) -> None:
        optimizer.zero_grad()
        model(batch, compute_s).backward()
        optimizer.step()

    return iterate


def main(assignment: str) -> None:
    train(assignment, prepare)

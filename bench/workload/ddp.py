"""A real data-parallel job: torch DDP over gloo, with real parameters and gradients and a sleep for the computing.

The backward pass computes first, so that gradients come when the computing is over and an iteration alone takes
compute + communication. (Where a real model's layers are slow one by one, the first buckets travel while the last
layers compute: kinds/overlap.py.) A job with overlap does the rest of its computing when the
gradients are on their way.
"""

import time
from math import ceil
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.workload.assignment import Assignment
from bench.workload.training import LEARNING_RATE, ROW_BYTES, WIDTH, Compute, Iterate, train

ROWS_PER_LAYER = 1024  # 4 MB: several layers to a bucket, as in real models


class Layers(nn.Module):
    """Linear layers side by side, so that they may be of any size: together `model_bytes`, and less than a row more."""

    def __init__(self, model_bytes: float, compute: type[torch.autograd.Function] = Compute) -> None:
        super().__init__()
        self._compute = compute
        rows = ceil(model_bytes / ROW_BYTES)
        sizes = [min(ROWS_PER_LAYER, rows - first) for first in range(0, rows, ROWS_PER_LAYER)]
        self.layers = nn.ModuleList(nn.Linear(WIDTH, size, bias=False) for size in sizes)

    def forward(self, batch: torch.Tensor, compute_s: float) -> torch.Tensor:
        outputs = [layer(batch).square().mean() for layer in self.layers]
        loss: torch.Tensor = self._compute.apply(torch.stack(outputs).sum(), compute_s)
        return loss


class ComputeBeside(torch.autograd.Function):
    """On the way into the layers: in the backward pass it comes after all of their gradients."""

    @staticmethod
    def forward(context: Any, batch: torch.Tensor, duration_s: float) -> torch.Tensor:
        context.duration_s = duration_s
        return batch.view_as(batch)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(context.duration_s)
        return gradient, None


def prepare(own: Assignment) -> Iterate:
    model = DistributedDataParallel(Layers(own.job.model_mb * 1e6), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    overlap = own.job.overlap
    batch = torch.randn(1, WIDTH, requires_grad=overlap > 0.0)

    def iterate(compute_s: float) -> None:
        optimizer.zero_grad()
        values = ComputeBeside.apply(batch, overlap * compute_s) if overlap else batch
        model(values, (1.0 - overlap) * compute_s).backward()
        optimizer.step()

    return iterate


def main(assignment: str) -> None:
    train(assignment, prepare)

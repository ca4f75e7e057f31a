"""A real data-parallel job: torch DDP over gloo, with real parameters and gradients and a sleep for the computing.

One third of the compute time passes in the forward pass and the rest at the beginning of the backward pass, so that
gradients come when the computing is over and an iteration alone takes compute + communication. (Where a real model's
layers are slow one by one, the first buckets travel while the last layers compute.) The job knows nothing of Paceline.
"""

import sys
import time
from math import ceil
from typing import Any

import torch
import torch._dynamo  # which DDP imports, and takes as long as all the rest
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.runner_protocol import done, iteration_ended, wait_for_go

WIDTH = 1024
ROWS_PER_LAYER = 1024  # 4 MB: several layers to a bucket, as in real models
_ROW_BYTES = 4 * WIDTH


class Compute(torch.autograd.Function):
    """Takes time in both passes and changes nothing."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, duration_s: float) -> torch.Tensor:
        context.backward_s = duration_s * 2 / 3
        time.sleep(duration_s / 3)
        return value.view_as(value)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(context.backward_s)
        return gradient, None


class Layers(nn.Module):
    """Linear layers side by side, so that they may be of any size: together `model_bytes`, and less than a row more."""

    def __init__(self, model_bytes: float) -> None:
        super().__init__()
        rows = ceil(model_bytes / _ROW_BYTES)
        sizes = [min(ROWS_PER_LAYER, rows - first) for first in range(0, rows, ROWS_PER_LAYER)]
        self.layers = nn.ModuleList(nn.Linear(WIDTH, size, bias=False) for size in sizes)

    def forward(self, batch: torch.Tensor, compute_s: float) -> torch.Tensor:
        outputs = [layer(batch).square().mean() for layer in self.layers]
        loss: torch.Tensor = Compute.apply(torch.stack(outputs).sum(), compute_s)
        return loss


def main(assignment: str) -> None:
    own = Assignment.from_json(assignment)
    torch.set_num_threads(1)
    torch.manual_seed(own.seed)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Layers(own.job.model_mb * 1e6), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(1, WIDTH)
    compute = ComputeTimes(own)
    dist.barrier()
    wait_for_go()
    for _ in range(sys.maxsize if own.job.iterations is None else own.job.iterations):
        optimizer.zero_grad()
        model(batch, compute.next_s()).backward()
        optimizer.step()
        iteration_ended()
    dist.barrier()  # no worker closes its connections while another still reads
    dist.destroy_process_group()
    done()

"""A real data-parallel job: torch DDP over NCCL, with real parameters and gradients on a GPU.

Computing takes time on the host or, as in real jobs, on the GPU's stream: then Python launches all of an iteration and
waits for its end, or launches the next one first.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from bench.workload.assignment import Assignment
from bench.workload.ddp import Layers
from bench.workload.gpu_training import stream_sleep, train_on_gpu
from bench.workload.training import LEARNING_RATE, WIDTH, Iterate

HOST, STREAM, AHEAD = "host", "stream", "ahead"


def prepare(own: Assignment, device: torch.device, computing: str) -> Iterate:
    compute = _function(time.sleep if computing == HOST else stream_sleep())
    model = DistributedDataParallel(Layers(own.job.model_mb * 1e6, compute).to(device), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    batch = torch.randn(1, WIDTH, device=device)

    def iterate(compute_s: float) -> None:
        optimizer.zero_grad()
        model(batch, compute_s).backward()
        optimizer.step()

    return iterate


def main(assignment: str, computing: str) -> None:
    train_on_gpu(assignment, partial(prepare, computing=computing), ahead=computing == AHEAD)


def _function(compute: Callable[[float], None]) -> type[torch.autograd.Function]:
    """Takes a third of the time in the forward pass and the rest at the beginning of the backward pass."""

    class Computing(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: torch.Tensor, duration_s: float) -> torch.Tensor:
            context.backward_s = duration_s * 2 / 3
            compute(duration_s / 3)
            return value.view_as(value)

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            compute(context.backward_s)
            return gradient, None

    return Computing

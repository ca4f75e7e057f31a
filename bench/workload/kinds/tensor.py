"""Tensor parallelism: every layer sums its activations over the workers, in both passes.

As in Megatron's layers: one all-reduce after a layer in the forward pass and one before it in the backward pass, small
and many, and computing waits for each of them.
"""

from functools import partial
from math import ceil
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from bench.workload.assignment import Assignment
from bench.workload.training import LEARNING_RATE, Compute, Iterate, train

LAYERS = 6
REDUCTIONS = 2 * LAYERS  # in an iteration of one micro-batch
_FLOAT_BYTES = 4


def _mean_of_workers(value: torch.Tensor) -> torch.Tensor:
    total = value.clone()
    dist.all_reduce(total)
    return total.div_(dist.get_world_size())


class ReduceOutput(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        return _mean_of_workers(value)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class ReduceGradient(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return _mean_of_workers(gradient)


def prepare(own: Assignment, micro_batches: int) -> Iterate:
    size = ceil(own.job.model_mb * 1e6 / REDUCTIONS / micro_batches / _FLOAT_BYTES)
    embedding = nn.Parameter(torch.ones(size))
    optimizer = torch.optim.SGD([embedding], lr=LEARNING_RATE)

    def forward(compute_s: float) -> torch.Tensor:
        value: torch.Tensor = embedding
        for _ in range(LAYERS):
            value = Compute.apply(ReduceGradient.apply(value), compute_s / LAYERS)
            value = ReduceOutput.apply(value)
        return value.square().mean()

    def iterate(compute_s: float) -> None:
        optimizer.zero_grad()
        for _ in range(micro_batches):
            forward(compute_s / micro_batches).backward()
        optimizer.step()

    return iterate


def main(assignment: str, micro_batches: str) -> None:
    train(assignment, partial(prepare, micro_batches=int(micro_batches)))

"""Experts on every worker: each layer sends its tokens to their experts' workers, and their gradients back.

A layer's tokens of T bytes cost a worker (n-1)/n·T in the forward and as much in the backward pass; computing waits for
both. So T is a quarter of the scenario's model with four layers.
"""

from math import ceil
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from bench.workload.assignment import Assignment
from bench.workload.training import LEARNING_RATE, Compute, Iterate, train

LAYERS = 4
_FLOAT_BYTES = 4


def _exchanged(value: torch.Tensor) -> torch.Tensor:
    received = torch.empty_like(value)
    dist.all_to_all_single(received, value.contiguous())
    return received


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tokens: torch.Tensor) -> torch.Tensor:
        return _exchanged(tokens)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return _exchanged(gradient)


def prepare(own: Assignment) -> Iterate:
    per_expert = ceil(own.job.model_mb * 1e6 / LAYERS / own.world_size / _FLOAT_BYTES)
    embedding = nn.Parameter(torch.ones(own.world_size * per_expert))
    optimizer = torch.optim.SGD([embedding], lr=LEARNING_RATE)

    def iterate(compute_s: float) -> None:
        optimizer.zero_grad()
        value: torch.Tensor = embedding
        for _ in range(LAYERS):
            value = Compute.apply(Exchange.apply(value), compute_s / LAYERS)
        value.square().mean().backward()
        optimizer.step()

    return iterate


def main(assignment: str) -> None:
    train(assignment, prepare)

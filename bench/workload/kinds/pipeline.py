"""A pipeline of two stages by torch's own schedule (one forward, one backward): activations one way, gradients back.

The micro-batches' activations together are the scenario's model, so either worker sends as much as in an all-reduce of
two. torch's schedule sends and receives outside the backward passes.
"""

from math import ceil

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from bench.workload.assignment import Assignment
from bench.workload.training import LEARNING_RATE, Compute, Iterate, train

STAGES, MICRO_BATCHES = 2, 4
_FLOAT_BYTES = 4


class Stage(nn.Module):
    """Computes for `compute_s` per micro-batch."""

    compute_s = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = Compute.apply(value * self.scale, self.compute_s)
        return output.clone()


def prepare(own: Assignment) -> Iterate:
    stage, rank = Stage(), dist.get_rank()
    optimizer = torch.optim.SGD(stage.parameters(), lr=LEARNING_RATE)
    placed = PipelineStage(stage, rank, STAGES, torch.device("cpu"))
    schedule = Schedule1F1B(placed, MICRO_BATCHES, loss_fn=lambda output, target: output.mean())
    size = ceil(own.job.model_mb * 1e6 / MICRO_BATCHES / _FLOAT_BYTES)
    batch = torch.randn(MICRO_BATCHES, size)
    targets = torch.zeros(MICRO_BATCHES)

    def iterate(compute_s: float) -> None:
        stage.compute_s = compute_s / MICRO_BATCHES
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(batch)
        else:
            schedule.step(target=targets)
        optimizer.step()

    return iterate


def main(assignment: str) -> None:
    train(assignment, prepare)

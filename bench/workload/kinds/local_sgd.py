"""Local SGD: workers train by themselves, and every eight steps torch's averager averages their parameters.

An iteration is what lies between two averages: eight steps that compute together what the scenario says. Nothing is
sent in a backward pass.
"""

import torch
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

from bench.workload.assignment import Assignment
from bench.workload.ddp import Layers
from bench.workload.training import LEARNING_RATE, WIDTH, Iterate, train

STEPS = 8


def prepare(own: Assignment) -> Iterate:
    model = Layers(own.job.model_mb * 1e6)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    averager = PeriodicModelAverager(period=STEPS, warmup_steps=STEPS - 1)
    batch = torch.randn(1, WIDTH)

    def iterate(compute_s: float) -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(batch, compute_s / STEPS).backward()
            optimizer.step()
            averager.average_parameters(model.parameters())

    return iterate


def main(assignment: str) -> None:
    train(assignment, prepare)

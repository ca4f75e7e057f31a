"""DDP with what real training adds to it: accumulated gradients, evaluations, checkpoints, batches of varied length.

accumulate   gradients of four micro-batches, exchanged with the last (no_sync)
checkpoint   every ten iterations an evaluation (forward only), every twenty a pause without computing and sending
long-tail    a log-normal factor of mean 1 on every computing time, drawn for each worker
varied       all of it

An iteration ends with the exchange and what follows it, so an evaluation or a pause belongs to the one before.
"""

import random
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import exp

import torch
from torch.nn.parallel import DistributedDataParallel

from bench.workload.assignment import Assignment
from bench.workload.ddp import Layers
from bench.workload.training import LEARNING_RATE, WIDTH, Iterate, train

MICRO_BATCHES = 4
EVALUATE_EVERY, EVALUATION_BATCHES = 10, 3
PAUSE_EVERY, PAUSE_S = 20, 0.7
LONG_TAIL_SIGMA = 0.5  # the 99th percentile is 2.8 times the mean


@dataclass(frozen=True, slots=True)
class Habits:
    micro_batches: int = 1
    checkpoints: bool = False
    long_tail: bool = False


HABITS = {
    "accumulate": Habits(micro_batches=MICRO_BATCHES),
    "checkpoint": Habits(checkpoints=True),
    "long-tail": Habits(long_tail=True),
    "varied": Habits(micro_batches=MICRO_BATCHES, checkpoints=True, long_tail=True),
}


def prepare(own: Assignment, habits: Habits) -> Iterate:
    model = DistributedDataParallel(Layers(own.job.model_mb * 1e6), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    batch = torch.randn(1, WIDTH)
    draws = random.Random(f"{own.seed}/long-tail/{own.job.name}/{own.rank}")
    ended = 0

    def iterate(compute_s: float) -> None:
        nonlocal ended
        if habits.long_tail:
            compute_s *= exp(draws.gauss(-(LONG_TAIL_SIGMA**2) / 2, LONG_TAIL_SIGMA))
        optimizer.zero_grad()
        for left in reversed(range(habits.micro_batches)):
            with model.no_sync() if left else nullcontext():
                model(batch, compute_s / habits.micro_batches).backward()
        optimizer.step()
        ended += 1
        if habits.checkpoints and ended % EVALUATE_EVERY == 0:
            with torch.no_grad():
                for _ in range(EVALUATION_BATCHES):
                    model(batch, compute_s / habits.micro_batches)
        if habits.checkpoints and ended % PAUSE_EVERY == 0:
            time.sleep(PAUSE_S)

    return iterate


def main(assignment: str, kind: str) -> None:
    train(assignment, partial(prepare, habits=HABITS[kind]))

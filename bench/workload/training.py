"""The frame of a torch job over gloo: join the others, wait for the word, then iterate until all is done.

A kind of job is a function that gets its assignment and returns one iteration: a function of the time to compute.
Computing is a sleep inside real forward and backward passes, a third of it in the forward pass, so that many jobs
share a few cores. The jobs know nothing of Paceline.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo  # which DDP imports, and takes as long as all the rest
import torch.distributed as dist

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.runner_protocol import done, iteration_ended, wait_for_go

WIDTH = 1024
ROW_BYTES = 4 * WIDTH
LEARNING_RATE = 1e-3

Iterate = Callable[[float], None]  # takes the seconds to compute


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


def join(own: Assignment) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(own.seed)
    dist.init_process_group("gloo")


def leave() -> None:
    dist.barrier()  # no worker closes its connections while another still reads
    dist.destroy_process_group()


def train(assignment: str, prepare: Callable[[Assignment], Iterate]) -> None:
    own = Assignment.from_json(assignment)
    join(own)
    iterate, compute = prepare(own), ComputeTimes(own)
    dist.barrier()
    wait_for_go()
    for _ in own.iterations:
        iterate(compute.next_s())
        iteration_ended()
    leave()
    done()

"""A real data-parallel job: torch DDP over NCCL, with real parameters and gradients on a GPU.

Computing takes time on the host or, as in real jobs, on the GPU's stream: then Python launches all of an iteration and
waits for its end, or launches the next one first. All jobs may share one GPU: each rank says that it is a host of its
own (NCCL_HOSTID, bench/jobs/launch.py), so that NCCL takes the network.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.ddp import Layers
from bench.workload.runner_protocol import done, iteration_ended, wait_for_go
from bench.workload.training import LEARNING_RATE, WIDTH, iterations, leave

HOST, STREAM, AHEAD = "host", "stream", "ahead"
_CALIBRATION_CYCLES = 50_000_000


def main(assignment: str, computing: str) -> None:
    own = Assignment.from_json(assignment)
    torch.manual_seed(own.seed)
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    compute = _function(time.sleep if computing == HOST else stream_sleep())
    model = DistributedDataParallel(Layers(own.job.model_mb * 1e6, compute).to(device), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    batch, times = torch.randn(1, WIDTH, device=device), ComputeTimes(own)
    dist.barrier()
    torch.cuda.synchronize()
    wait_for_go()
    launched: list[torch.cuda.Event] = []
    for _ in range(iterations(own)):
        optimizer.zero_grad()
        model(batch, times.next_s()).backward()
        optimizer.step()
        launched.append(torch.cuda.Event())
        launched[-1].record()
        if computing != AHEAD or len(launched) > 1:
            _await(launched.pop(0))
    for event in launched:
        _await(event)
    leave()
    done()


def _await(event: torch.cuda.Event) -> None:
    event.synchronize()
    iteration_ended()


def stream_sleep() -> Callable[[float], None]:
    """Keeps the current stream busy for so many seconds."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(_CALIBRATION_CYCLES)  # the first launch loads the kernel
    begin.record()
    torch.cuda._sleep(_CALIBRATION_CYCLES)
    end.record()
    end.synchronize()
    cycles_per_s = _CALIBRATION_CYCLES / (begin.elapsed_time(end) / 1e3)
    return lambda duration_s: torch.cuda._sleep(round(duration_s * cycles_per_s))


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

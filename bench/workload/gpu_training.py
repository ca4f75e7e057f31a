"""The frame of a torch job over NCCL: join the others, wait for the word, then iterate until all is done.

A kind of job is a function that gets its assignment and a device, and returns one iteration, which is launched and not
waited for. As in real jobs Python runs ahead of the GPU: by all of an iteration or, `ahead`, by one more. All jobs may
share one GPU: each rank says that it is a host of its own (NCCL_HOSTID, bench/jobs/launch.py), so that NCCL takes the
network.
"""

import ctypes
from collections.abc import Callable

import torch
import torch.distributed as dist

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.runner_protocol import done, iteration_ended, wait_for_go
from bench.workload.training import Iterate, leave

Prepare = Callable[[Assignment, torch.device], Iterate]


def train_on_gpu(assignment: str, prepare: Prepare, ahead: bool = False) -> None:
    own = Assignment.from_json(assignment)
    torch.manual_seed(own.seed)
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    iterate, times = prepare(own, device), ComputeTimes(own)
    dist.barrier()
    torch.cuda.synchronize()
    wait_for_go()
    launched: list[torch.cuda.Event] = []
    for _ in own.iterations:
        iterate(times.next_s())
        launched.append(torch.cuda.Event())
        launched[-1].record()
        if not ahead or len(launched) > 1:
            _await(launched.pop(0))
    for event in launched:
        _await(event)
    leave()
    done()


def _await(event: torch.cuda.Event) -> None:
    event.synchronize()
    iteration_ended()


def stream_sleep() -> Callable[[float], None]:
    """Holds the current stream up for so many seconds, and leaves the GPU idle meanwhile.

    CUDA calls libc's usleep when the stream comes to it. A kernel that waits would keep the GPU, which processes
    have in turns: those of other jobs would stand still, and their NCCL kernels with them. The runtime's call, not the
    driver's: autograd has threads of its own, and a thread has no context until the runtime is called in it.
    """
    assert torch.version.cuda is not None
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.partition('.')[0]}")  # the one torch has loaded
    launch = runtime.cudaLaunchHostFunc
    launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)

    def sleep(duration_s: float) -> None:
        error = launch(torch.cuda.current_stream().cuda_stream, usleep, round(duration_s * 1e6))
        if error:
            raise RuntimeError(f"cudaLaunchHostFunc: CUDA error {error}")

    return sleep

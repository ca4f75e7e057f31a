"""A real model, trained: ResNet-50 or GPT-2 small, by DDP or by FSDP2, over NCCL on a GPU.

Forward and backward passes are the model's own, of a small batch; pauses on the GPU's stream between its stages make up
for what is missing to the scenario's computing time (models/staged.py says why). So buckets are launched by Python long
before the GPU comes to them, as in real jobs.

DDP sends the gradients. FSDP gathers every stage's parameters in both passes and scatters its gradients: three times
(n-1)/n of the model where an all-reduce sends two (bench/workload/choice.py gives the scenario's job that size).
"""

import time

import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bench.workload.assignment import Assignment
from bench.workload.gpu_training import stream_sleep, train_on_gpu
from bench.workload.models.gpt2_small import Gpt2Small
from bench.workload.models.resnet50 import ResNet50
from bench.workload.models.staged import Pace, Sleep, Staged
from bench.workload.training import LEARNING_RATE, Iterate

DDP, FSDP = "ddp", "fsdp"
MODELS: dict[str, tuple[type[Staged], int]] = {"resnet50": (ResNet50, 8), "gpt2-small": (Gpt2Small, 1)}  # and its batch
_REHEARSALS = 4


def prepare(device: torch.device, sleep: Sleep, name: str, sharing: str) -> Iterate:
    kind, size = MODELS[name]
    model = kind().to(device)
    batch, targets = model.random_batch(size, device)
    computes_s = _computing_s(model, batch, targets, device)
    model.pace = pace = Pace(sleep, len(model.stages))
    shared = _shared(model, sharing)
    optimizer = torch.optim.SGD(shared.parameters(), lr=LEARNING_RATE)

    def iterate(compute_s: float) -> None:
        pace.stretch(compute_s - computes_s)
        optimizer.zero_grad()
        shared(batch, targets).backward()
        optimizer.step()

    return iterate


def _shared(model: Staged, sharing: str) -> torch.nn.Module:
    if sharing == DDP:
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    for stage in model.stages:
        fully_shard(stage, reshard_after_forward=True)
    fully_shard(model, reshard_after_forward=True)  # the root's, too: each parameter is gathered twice
    return model


def _computing_s(model: Staged, batch: torch.Tensor, targets: torch.Tensor, device: torch.device) -> float:
    """How long the model's own passes take, the fastest of some; the first also loads their kernels."""
    times_s = []
    for _ in range(_REHEARSALS):
        began_s = time.monotonic()
        model(batch, targets).backward()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times_s.append(time.monotonic() - began_s)
        model.zero_grad()
    return min(times_s)


def main(assignment: str, name: str, sharing: str) -> None:
    def on_stream(_own: Assignment, device: torch.device) -> Iterate:
        return prepare(device, stream_sleep(), name, sharing)

    torch.backends.cuda.matmul.allow_tf32 = True  # as convolutions are by themselves
    train_on_gpu(assignment, on_stream)

"""An ordinary DDP training script: knows nothing of Paceline. Prints one JSON object a phase."""

import contextlib
import io
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

ITERATIONS = 8
MICRO_BATCHES = 3


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 700), nn.ReLU(), nn.Linear(700, 256), nn.ReLU(), nn.Linear(256, 10))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 16, 16)),
        nn.Conv2d(1, 24, 3),
        nn.BatchNorm2d(24),
        nn.Flatten(),
        nn.Linear(24 * 196, 10),
    )


def size_bytes(tensors) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def train(name: str, model: nn.Module, expected_bytes: int, hook=None, accumulate: int = 1) -> None:
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.3)
    if hook is not None:
        wrapped.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
    for _ in range(ITERATIONS):
        for micro in range(accumulate):
            with wrapped.no_sync() if micro + 1 < accumulate else contextlib.nullcontext():
                wrapped(torch.randn(4, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.02)
    torch.save(wrapped, io.BytesIO())  # a wrapped model can be pickled, with or without observers
    checksum = float(sum(p.double().abs().sum() for p in model.parameters()))
    print(json.dumps({"phase": name, "bytes": expected_bytes, "checksum": checksum}), flush=True)


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank() + 1)
    model = perceptron()
    train("perceptron", model, size_bytes(model.parameters()))
    model = convolutional()  # batch-norm statistics travel too, before each forward pass
    train("convolutional", model, size_bytes(model.parameters()) + size_bytes(model.buffers()))
    model = perceptron()
    train("accumulation", model, size_bytes(model.parameters()), accumulate=MICRO_BATCHES)
    model = perceptron()
    train("user's comm hook", model, size_bytes(model.parameters()) // 2, hook=fp16_compress_hook)
    dist.destroy_process_group()


main()

"""The DDP job that `nccl_shim.overhead` times: prints one JSON object with each iteration's seconds.

    job.py --layers 4 --width 1024 --iterations 60 [--paired [--first without]]

With --paired the same processes alternate a few iterations with and without the hook, by putting the
original DDP methods back for those without: a comparison that a busy machine disturbs least. The model built
first runs a little slower (where its memory lies), so --first says which that is.
"""

import argparse
import json
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BLOCK = 2
WARM_UP = 5
Seconds = list[tuple[float, float]]  # elapsed and CPU, each iteration


def build(layers: int, width: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(width, width) for _ in range(layers))))
    return model, torch.optim.SGD(model.parameters(), lr=1e-4)


def iterate(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor, count: int) -> Seconds:
    """Times `count` iterations; CPU time is that of all threads of the process."""
    seconds = []
    for _ in range(count):
        started, cpu_started = time.perf_counter(), time.process_time()
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append((time.perf_counter() - started, time.process_time() - cpu_started))
    return seconds


def paired(args: argparse.Namespace, batch: torch.Tensor) -> dict[str, list[Seconds]]:
    """Blocks of iterations, with and without; the order within a pair alternates."""
    ddp: Any = DistributedDataParallel  # whose methods are replaced
    hooked = (ddp._ddp_init_helper, ddp.forward)
    methods = {"with": hooked, "without": tuple(method.__wrapped__ for method in hooked)}
    jobs = {}
    for name in sorted(methods, key=lambda name: name != args.first):
        ddp._ddp_init_helper, ddp.forward = methods[name]
        jobs[name] = build(args.layers, args.width)
        iterate(*jobs[name], batch, WARM_UP)
    blocks: dict[str, list[Seconds]] = {"with": [], "without": []}
    for pair in range(args.iterations // BLOCK):
        for name in ("with", "without") if pair % 2 else ("without", "with"):
            ddp._ddp_init_helper, ddp.forward = methods[name]
            blocks[name].append(iterate(*jobs[name], batch, BLOCK))
    return blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--paired", action="store_true")
    parser.add_argument("--first", choices=("with", "without"), default="with")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    batch = torch.randn(args.batch, args.width)
    if args.paired:
        result: dict[str, object] = {"blocks": paired(args, batch)}
    else:
        job = build(args.layers, args.width)
        iterate(*job, batch, WARM_UP)
        result = {"seconds": iterate(*job, batch, args.iterations)}
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""An ordinary DDP job for nccl_check to observe; it knows nothing of Paceline.

Rank 0 prints {"gradient_bytes", "seconds": [each iteration]} at its end.
"""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=("nccl", "gloo"), required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=2048)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda", 0) if args.backend == "nccl" else torch.device("cpu")
    dist.init_process_group(args.backend)
    layers = nn.Sequential(*(nn.Linear(args.width, args.width) for _ in range(args.layers))).to(device)
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    batch = torch.randn(64, args.width, device=device)
    seconds = []
    for _ in range(args.iterations):
        started = time.perf_counter()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # waits for the device: iterations do not run ahead of their communication
        seconds.append(time.perf_counter() - started)
    if dist.get_rank() == 0:
        size_bytes = sum(p.numel() * p.element_size() for p in layers.parameters())
        print(json.dumps({"gradient_bytes": size_bytes, "seconds": seconds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

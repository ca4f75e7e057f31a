"""FSDP on gloo, with a process group of the user's own making: knows nothing of Paceline."""

import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class OwnGroup(dist.ProcessGroup):
    """A Python process group that overrides nothing but its name, as research code does."""

    def getBackendName(self) -> str:
        return "own"


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    own = OwnGroup(rank, size)
    own._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    own._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
    tensor = torch.ones(1000)
    own.allreduce([tensor]).wait()
    assert tensor[0] == size

    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    whole = sum(p.numel() * p.element_size() for p in model.parameters())
    fully_shard(model)
    for _ in range(6):
        model(torch.randn(4, 64)).sum().backward()
        model.zero_grad()
        time.sleep(0.02)
    if rank == 0:
        dist.send(torch.ones(50), 1)
    else:
        dist.recv(torch.ones(50), 0)
    print(json.dumps({"phase": "fsdp", "bytes": whole}), flush=True)
    dist.destroy_process_group()


main()

"""A torch that has lost what the hook asks it at every pass: `before` the hook was installed, or `after`."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nccl_shim.hooks import torch_count, torch_hook


def gone() -> int:
    raise AttributeError("renamed")


when, backend = sys.argv[1:]
if backend == "nccl":
    torch_hook.is_nccl = torch_count.is_nccl = lambda *_: True
if when == "before":
    torch._C._current_graph_task_id = gone
torch_hook.install()
torch._C._current_graph_task_id = gone
dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/s", rank=0, world_size=1)
model = DistributedDataParallel(nn.Linear(4, 4))
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
print("trained", flush=True)
os._exit(0)

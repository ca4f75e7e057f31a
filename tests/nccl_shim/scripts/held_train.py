"""An ordinary DDP script of one rank over gloo; prints the seconds of each backward pass with more than one bucket."""

import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 700), nn.Linear(700, 256)), bucket_cap_mb=0.3)
model(torch.randn(4, 256)).sum().backward()
took_s = []
for _ in range(4):
    loss = model(torch.randn(4, 256)).sum()
    began_s = time.monotonic()
    loss.backward()
    took_s.append(time.monotonic() - began_s)
print(json.dumps(took_s), flush=True)
dist.destroy_process_group()

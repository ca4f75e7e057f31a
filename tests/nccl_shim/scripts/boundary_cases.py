"""One process, hooks installed by hand, NCCL pretended: what ends an iteration where Python sees no bucket.

Prints how many iterations each case ended.
"""

import json
import os
import sys
import tempfile
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from nccl_shim.hooks import torch_count, torch_hook

if sys.argv[1] == "nccl":
    torch_hook.is_nccl = torch_count.is_nccl = lambda *_: True
torch_hook.install()
ended = 0


def end() -> None:
    global ended
    ended += 1


torch_hook._installed.boundary._end = end


@dataclass
class Output:
    text: str
    loss: torch.Tensor


class Model(nn.Module):
    def __init__(self, style: str) -> None:
        super().__init__()
        self.style = style
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor):
        if self.style == "checkpoint":
            loss = checkpoint(lambda y: self.b(self.a(y)), x, use_reentrant=True).sum()
        else:
            loss = self.b(self.a(x)).sum()
        return {"dict": {"loss": [loss]}, "object": Output("t", loss), "fails": Fails.apply(loss)}.get(self.style, loss)


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if Fails.armed:
            raise RuntimeError("the user's own error")
        return grad


def loss_of(output) -> torch.Tensor:
    if isinstance(output, dict):
        return output["loss"][0]
    return output.loss if isinstance(output, Output) else output


def count(style: str, iterations: int = 3) -> int:
    global ended
    ended = 0
    model = DistributedDataParallel(Model(style), find_unused_parameters=style == "unused")
    for i in range(iterations):
        Fails.armed = style == "fails" and i == 0
        x = torch.ones(2, 4, requires_grad=True)
        if style == "no_sync":
            with model.no_sync():
                loss_of(model(x)).backward()
        try:
            loss_of(model(x)).backward()
        except RuntimeError:
            model = DistributedDataParallel(Model(style))
    with torch.no_grad():
        model(torch.ones(2, 4))
    return ended


dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/s", rank=0, world_size=1)
styles = ("plain", "dict", "object", "no_sync", "unused", "checkpoint", "fails")
print(json.dumps({style: count(style) for style in styles}), flush=True)
dist.destroy_process_group()
os._exit(0)

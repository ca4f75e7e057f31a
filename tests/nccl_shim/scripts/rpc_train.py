"""A parameter server over torch RPC: rank 0 serves, rank 1 trains. Knows nothing of Paceline."""

import json
import os
import time

import torch
from torch.distributed import rpc

MODEL = torch.zeros(50_000)
CHUNKS = 4
ITERATIONS = 8


def push(chunk: int, gradient: torch.Tensor) -> None:
    MODEL[chunk * 12_500 : (chunk + 1) * 12_500] -= gradient


def pull(chunk: int) -> torch.Tensor:
    return MODEL[chunk * 12_500 : (chunk + 1) * 12_500]


def failing() -> None:
    raise ValueError("the user's own error")


def train() -> None:
    for _ in range(ITERATIONS):
        pushes = [rpc.rpc_async("server", push, args=(i, torch.ones(12_500))) for i in range(CHUNKS)]
        pulls = []
        for i, pushed in enumerate(pushes):
            pushed.wait()
            pulls.append(rpc.rpc_async("server", pull, args=(i,)))
        model = torch.cat([pulled.wait() for pulled in pulls])
        time.sleep(0.03)
    assert model[0] == -ITERATIONS
    try:
        rpc.rpc_sync("server", failing)
    except ValueError as error:
        print(json.dumps({"error": str(error), "iterations": ITERATIONS, "bytes": 200_000}), flush=True)


def main() -> None:
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(_transports=["uv"], _channels=["basic"])
    rpc.init_rpc("server" if rank == 0 else "worker", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        train()
    rpc.shutdown()


main()

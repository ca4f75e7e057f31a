"""A real parameter-server job over torch RPC, forced onto the network: by default torch moves tensors between
processes of one machine through shared memory, past every emulated link.

A worker pushes its gradients in chunks and asks for each chunk of parameters back; a server answers once every worker
has pushed that chunk, so that push and pull overlap. The chunks of a burst are pushed together. The job knows nothing
of Paceline.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import product

import torch
from torch.distributed import rpc

from bench.workload.assignment import Assignment, ComputeTimes, computing_beside
from bench.workload.runner_protocol import done, iteration_ended, wait_for_go

CHUNKS = 8  # per server and burst: enough for push and pull to overlap, each still worth a call
LEARNING_RATE = 1e-3
_GIVE_UP_S = 120.0


class Shard:
    """A server's part of the model, in chunks; a chunk's parameters are those after all workers' pushes so far."""

    def __init__(self, elements: int, chunks: int, workers: int) -> None:
        self.chunks = list(torch.zeros(elements).tensor_split(chunks))
        self._workers = workers
        self._pushes: Counter[int] = Counter()
        self._pushed = threading.Condition()

    def push(self, chunk: int, gradient: torch.Tensor) -> None:
        with self._pushed:
            self.chunks[chunk].add_(gradient, alpha=-LEARNING_RATE)
            self._pushes[chunk] += 1
            self._pushed.notify_all()

    def pull(self, chunk: int, iteration: int) -> torch.Tensor:
        with self._pushed:
            due = self._workers * (iteration + 1)
            if not self._pushed.wait_for(lambda: self._pushes[chunk] >= due, _GIVE_UP_S):
                raise TimeoutError(f"chunk {chunk} of iteration {iteration} was not pushed by every worker")
            return self.chunks[chunk]


_shard: Shard


def push(chunk: int, gradient: torch.Tensor) -> None:
    _shard.push(chunk, gradient)


def pull(chunk: int, iteration: int) -> torch.Tensor:
    return _shard.pull(chunk, iteration)


def work(own: Assignment, elements: int) -> None:
    servers = [f"server{number}" for number in range(len(own.job.servers))]
    gradients = torch.randn(elements).tensor_split(CHUNKS * own.job.bursts)
    compute = ComputeTimes(own)
    for iteration in range(sys.maxsize if own.job.iterations is None else own.job.iterations):
        for burst, (before_s, beside_s) in enumerate(compute.pieces_s()):
            time.sleep(before_s)
            with computing_beside(beside_s):
                exchange(servers, gradients, range(burst * CHUNKS, (burst + 1) * CHUNKS), iteration)
        iteration_ended()


def exchange(servers: Sequence[str], gradients: Sequence[torch.Tensor], chunks: range, iteration: int) -> None:
    calls = []
    for chunk, server in product(chunks, servers):
        calls.append(rpc.rpc_async(server, push, args=(chunk, gradients[chunk])))
        # Requested at once: behind the other pushes the request would wait until they are through.
        calls.append(rpc.rpc_async(server, pull, args=(chunk, iteration)))
    torch.futures.wait_all(calls)


def main(assignment: str) -> None:
    global _shard
    own = Assignment.from_json(assignment)
    torch.set_num_threads(1)
    torch.manual_seed(own.seed)
    elements = round(own.job.model_mb * 1e6 / 4 / len(own.job.servers))
    if own.serves:
        _shard = Shard(elements, CHUNKS * own.job.bursts, len(own.job.workers))
    # A pull may wait for the slowest worker, and holds a thread meanwhile.
    threads = 2 * CHUNKS * len(own.job.workers)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=threads, _transports=["uv"], _channels=["basic"])
    name = f"server{own.rank - len(own.job.workers)}" if own.serves else f"worker{own.rank}"
    rpc.init_rpc(name, rank=own.rank, world_size=own.world_size, rpc_backend_options=options)
    wait_for_go()
    if not own.serves:
        work(own, elements)
    rpc.shutdown()
    done()

"""A data-parallel job of JAX over NCCL, with real parameters and gradients on a GPU.

It has no torch, and so no hook: nothing marks its iterations, and all that is known of it comes from the profiler
plugin. XLA reduces the gradients over all workers, because the batch is spread over them and the parameters are not.
"""

import os
import time

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.runner_protocol import done, iteration_ended, wait_for_go

WIDTH = 1024
ROW_BYTES = 4 * WIDTH
LEARNING_RATE = 1e-3
_WORKERS = "workers"


def main(assignment: str) -> None:
    own = Assignment.from_json(assignment)
    _join(own)
    mesh = jax.make_mesh((own.world_size,), (_WORKERS,))
    everywhere, spread = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(_WORKERS))
    rows = -(-round(own.job.model_mb * 1e6) // ROW_BYTES)
    weights = jax.jit(lambda: jnp.full((rows, WIDTH), 1e-3), out_shardings=everywhere)()
    batch = jax.jit(lambda: jnp.ones((own.world_size, WIDTH)), out_shardings=spread)()
    step = jax.jit(_step, out_shardings=everywhere)
    weights = step(weights, batch).block_until_ready()  # compiles, and connects the workers
    times = ComputeTimes(own)
    wait_for_go()
    for _ in own.iterations:
        time.sleep(times.next_s())
        weights = step(weights, batch).block_until_ready()
        iteration_ended()
    done()


def _join(own: Assignment) -> None:
    """The workers may share one GPU, of which JAX would take three quarters for each."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    store = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(store, own.world_size, own.rank, local_device_ids=[0])


def _step(weights: jax.Array, batch: jax.Array) -> jax.Array:
    return weights - LEARNING_RATE * jax.grad(_loss)(weights, batch)


def _loss(weights: jax.Array, batch: jax.Array) -> jax.Array:
    return jnp.square(batch @ weights.T).mean()

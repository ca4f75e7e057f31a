"""What a rank sends for an operation, by operation and backend."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from nccl_shim.hooks.torch_count import wire_bytes_of  # noqa: E402

pytestmark = pytest.mark.torch


def group(size: int, backend: str) -> Any:
    return SimpleNamespace(size=lambda: size, _get_backend=lambda device: SimpleNamespace(name=lambda: backend))


@pytest.mark.parametrize(
    ("operation", "backend", "size", "sent"),
    [
        ("AllReduce", "gloo", 2, 1200),
        ("AllReduce", "gloo", 3, 1600),
        ("AllGather", "gloo", 3, 2400),  # of one rank's share
        ("ReduceScatter", "mpi", 3, 2400),
        ("ReduceScatter", "gloo", 2, 2400),  # an all-reduce of the whole, 2400
        ("ReduceScatter", "gloo", 3, 4800),
        ("AlltoAll", "gloo", 2, 600),  # half of it stays
        ("AlltoAll", "gloo", 4, 900),
        ("Send", "gloo", 2, 1200),
    ],
)
def test_bytes_on_the_wire(operation: str, backend: str, size: int, sent: int) -> None:
    assert wire_bytes_of(operation, 1200, group(size, backend), torch.device("cpu")) == sent


def test_tensors_in_arguments_are_counted_and_long_lists_of_numbers_are_not_walked() -> None:
    from nccl_shim.hooks.rpc_hook import MOST_PARTS, payload_bytes

    tensor = torch.zeros(250)
    assert payload_bytes(({"a": [tensor, 1]}, (tensor,), "text")) == 2000
    times_s = []
    for count in (MOST_PARTS, 200 * MOST_PARTS):
        numbers, began_s = [0] * count, time.perf_counter()
        assert payload_bytes(numbers) == 0
        times_s.append(time.perf_counter() - began_s)
    assert times_s[1] < 20 * times_s[0]
    endless: list[Any] = []
    endless.append(endless)
    assert payload_bytes(endless) == 0


def test_a_bucket_of_sparse_gradients_counts() -> None:
    from nccl_shim.hooks.torch_count import _sparse_bytes

    sparse = torch.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (100,), check_invariants=True)
    assert sparse.is_sparse and _sparse_bytes(sparse) == 2 * 4 + 2 * 8

"""What a rank sends for an operation, by operation and backend."""

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

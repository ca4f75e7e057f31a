"""The parts of the GPU check that can be judged without a GPU."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu.outside_pacing import UNLIMITED, data_sockets, pace
from bench.gpu.plugin_check import exactness
from nccl_shim.segment.snapshot import IterationCounter

SO_MAX_PACING_RATE = 47


@pytest.fixture
def connection():
    """Two ends of a loopback connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    with client, other:
        yield client, other


def rate_of(end: socket.socket) -> int:
    return struct.unpack("<Q", end.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 8))[0]


def test_only_sockets_that_carry_data_are_paced(connection) -> None:
    client, other = connection
    for _ in range(20):
        client.sendall(bytes(1000))
        assert other.recv(1000, socket.MSG_WAITALL) == bytes(1000)
    assert data_sockets(os.getpid(), 20_000, one_way=True) == [client.fileno()]
    assert data_sockets(os.getpid(), 20_001, one_way=True) == []
    other.sendall(b"reply")
    client.recv(5)
    assert data_sockets(os.getpid(), 20_000, one_way=True) == []
    assert data_sockets(os.getpid(), 20_000, one_way=False) == [client.fileno()]


def test_a_rate_is_divided_over_the_sockets_and_lifted_again(connection) -> None:
    ends = [end.fileno() for end in connection]
    pace(os.getpid(), ends, 50_000_000)
    assert [rate_of(end) for end in connection] == [25_000_000, 25_000_000]
    pace(os.getpid(), ends, UNLIMITED)
    assert [rate_of(end) for end in connection] == [UNLIMITED, UNLIMITED]


def run_with(sizes: list[int]) -> dict:
    counters, total = {}, 0
    for index, size in enumerate(sizes, start=1):
        total += size
        counters[index] = IterationCounter(index, index, total, total, size, 1)
    return {"printed": {"gradient_bytes": 500}, "counters": {0: counters, 1: counters}, "views": {}}


@pytest.mark.parametrize(
    ("sizes", "verdict"),
    [([900, 600, 500, 500], True), ([900, 600, 500, 504], False), ([900, 600, 500], False)],
)
def test_exactness_is_judged_from_the_third_iteration_to_the_last(sizes: list[int], verdict: bool) -> None:
    assert exactness(run_with(sizes), iterations=4)["pass"] is verdict


def test_an_iteration_that_polls_missed_is_judged_by_the_sum() -> None:
    run = run_with([900, 600, 500, 501, 500])
    del run["counters"][0][4]
    assert not exactness(run, iterations=5)["pass"]


def test_wrong_arguments_are_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu.plugin_check", "--iterations", "1"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1

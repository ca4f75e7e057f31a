"""gRPC's threads stay where they were started: a test that forks in a namespace does not take them along."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from bench.testbed.namespace import Namespace

pytestmark = pytest.mark.root


def test_no_thread_is_left_in_a_namespace() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, Namespace("elsewhere") as elsewhere:
        grpc.channel_ready_future(channel).result(timeout=10)
        with elsewhere.popen(["true"]) as process:
            assert process.wait() == 0
        here = Path("/proc/thread-self/ns/net").readlink()
        assert {(thread / "ns/net").readlink() for thread in Path("/proc/self/task").iterdir()} == {here}
    server.stop(0)

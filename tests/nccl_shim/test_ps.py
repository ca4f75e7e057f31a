"""Parameter servers: the five-line API."""

import subprocess
import sys
from pathlib import Path

import pytest

from nccl_shim.segment.layout import Kind, ProcessRole
from nccl_shim.segment.reader import Reader

FIVE_LINES = """
from nccl_shim import ps
channel = ps.connect(role="worker", rank=1, world_size=3)
for _ in range(4):
    with channel.push(peer=2, size_bytes=1000): pass
    with channel.pull(peer=2, size_bytes=3000): pass
    number = channel.iteration_done()
assert number == 4
late = channel.push(peer=0, size_bytes=77)
try:
    with channel.push(peer=0, size_bytes=5): raise KeyError
except KeyError: pass
done_twice = channel.pull(peer=0, size_bytes=9)
done_twice.done(); done_twice.done()
"""


def test_the_five_line_api(clean_env: dict, shm_dir: Path) -> None:
    subprocess.run([sys.executable, "-c", FIVE_LINES], env=clean_env, check=True, timeout=30)
    with Reader(shm_dir, estimate_waiting=True) as reader:
        [view] = reader.poll()
    snapshot = view.snapshot
    assert (snapshot.role, snapshot.global_rank, snapshot.world_size) == (ProcessRole.WORKER, 1, 3)
    flows = {(flow.kind, flow.peer): flow for flow in snapshot.flows}
    assert flows[Kind.PUSH, 2].enqueued_bytes == flows[Kind.PUSH, 2].tx_bytes == 4000
    assert flows[Kind.PULL, 2].rx_bytes == 12000
    assert flows[Kind.PULL, 0].rx_bytes == 9
    assert (snapshot.iteration_counter.iteration, snapshot.iteration_counter.last_enqueued_bytes) == (4, 1000)
    assert view.waiting_bytes == 77, "announced and not done"


def test_a_wrong_role_is_the_callers_error() -> None:
    from nccl_shim import ps

    with pytest.raises(ValueError, match="'boss'"):
        ps.connect(role="boss")

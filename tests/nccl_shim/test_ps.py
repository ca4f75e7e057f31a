"""Parameter servers: the five-line API, the cycle that guesses iterations, and a real torch RPC job."""

import subprocess
import sys
from pathlib import Path

import pytest

from nccl_shim.hooks.cycle import CallCycle
from nccl_shim.segment.layout import Kind, ProcessRole
from nccl_shim.segment.reader import Reader
from tests.nccl_shim.ranks import child_env, our_lines, run_ranks

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


def turns(calls: str) -> list[int]:
    """Where turns are over. A capital letter starts that call; a small one ends a call with a payload in its
    reply, a dot ends one without."""
    cycle, over = CallCycle(), []
    for position, letter in enumerate(calls):
        if cycle.started(letter) if letter.isupper() else cycle.finished(0 if letter == "." else 1):
            over.append(position)
    return over


def test_push_then_pull() -> None:
    assert turns("A.Bb" * 4) == [4, 7, 11, 15], "the first when the next begins, then each with its last answer"


def test_two_servers_one_after_the_other() -> None:
    assert turns("A.B.CcDd" * 3) == [8, 15, 23]


def test_chunks_that_overlap_are_one_turn() -> None:
    once = "AAA.B.A.BB.bbb"
    assert turns(once * 3) == [len(once), 2 * len(once) - 1, 3 * len(once) - 1]


def test_an_exchange_in_one_call() -> None:
    assert turns("Aa" * 4) == [2, 3, 5, 7]


def test_a_turn_with_fewer_calls_is_over_when_the_next_begins_and_one_with_more_is_over_once() -> None:
    assert turns("A.B.CcDd" * 2 + "A.Cc" + "A.B.CcDd" * 2) == [8, 15, 20, 23, 35]


def test_pushes_alone_make_no_turn() -> None:
    assert turns("A." * 5) == []


def test_torch_rpc(library_path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the torch extra is not installed")
    run = run_ranks("rpc_train.py", child_env(library_path, tmp_path), tmp_path)
    assert not any(our_lines(text) for text in run.errors)
    [phase] = run.printed[1]
    assert "the user's own error" in phase["error"]
    worker, server = run.views[1].snapshot, run.views[0].snapshot
    assert (worker.role, server.role) == (ProcessRole.WORKER, ProcessRole.SERVER)
    flows = {flow.kind: flow for flow in worker.flows}
    assert flows[Kind.PUSH].peer == flows[Kind.PULL].peer == 0
    assert flows[Kind.PUSH].tx_bytes == flows[Kind.PULL].rx_bytes == phase["bytes"] * phase["iterations"]
    assert {f.kind: f.tx_bytes for f in server.flows} == {Kind.PUSH: phase["bytes"] * phase["iterations"]}
    assert max(run.counters[1]) == phase["iterations"]
    assert {counter.last_enqueued_bytes for i, counter in run.counters[1].items() if i >= 3} == {phase["bytes"]}

"""A real torch RPC job: one server, one worker."""

from pathlib import Path

import pytest

from nccl_shim.segment.layout import Kind, ProcessRole
from tests.nccl_shim.ranks import child_env, our_lines, run_ranks

pytestmark = pytest.mark.torch

pytest.importorskip("torch", reason="the torch extra is not installed")


def test_torch_rpc(library_path: Path, tmp_path: Path) -> None:
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

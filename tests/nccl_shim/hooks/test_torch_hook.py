"""Real gloo jobs, started by the launcher, watched from outside."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nccl_shim.hooks.post_import import AfterImport
from nccl_shim.page.layout import ANY_PEER, Entry, State
from nccl_shim.page.writer import PageWriter
from nccl_shim.segment.layout import Kind
from nccl_shim.segment.reader import Reader
from tests.nccl_shim.ranks import OBSERVED, SCRIPTS, ObservedRun, child_env, free_port, our_lines, run_ranks

pytestmark = pytest.mark.torch

pytest.importorskip("torch", reason="the torch extra is not installed")

ITERATIONS = 8


@pytest.fixture(scope="module")
def ddp(library_path: Path, tmp_path_factory: pytest.TempPathFactory) -> ObservedRun:
    return run_ddp(library_path, tmp_path_factory.mktemp("ddp"))


def run_ddp(library_path: Path, directory: Path, **extra: str) -> ObservedRun:
    env = child_env(library_path, directory) | extra
    return run_ranks("ddp_train.py", env, directory)


def test_bytes_are_exact_from_the_third_iteration_on(ddp: ObservedRun) -> None:
    for rank in (0, 1):
        counters = ddp.counters[rank]
        assert max(counters) == ITERATIONS * 4, "one end an iteration, accumulation included"
        for number, phase in enumerate(ddp.printed[rank]):
            first, last = number * ITERATIONS + 1, (number + 1) * ITERATIONS
            seen = [counters[i].last_enqueued_bytes for i in range(first + 2, last + 1) if i in counters]
            assert len(seen) >= 5, f"polled too rarely: {phase}"
            assert set(seen) == {phase["bytes"]}, phase
            # The same over the whole stretch, so that what polls missed is exact too.
            known = sorted(i for i in counters if first + 1 <= i <= last)
            bytes_between = counters[known[-1]].enqueued_at_start - counters[known[0]].enqueued_at_start
            assert bytes_between == phase["bytes"] * (known[-1] - known[0])


def test_what_ddp_sends_to_begin_with_is_no_part_of_the_first_iteration(ddp: ObservedRun) -> None:
    for rank in (0, 1):
        first = ddp.counters[rank][1]
        assert first.enqueued_at_start > first.last_enqueued_bytes >= ddp.printed[rank][0]["bytes"]


def test_everything_was_sent_in_the_end(ddp: ObservedRun) -> None:
    for rank in (0, 1):
        view = ddp.views[rank]
        [flow] = view.snapshot.flows
        assert flow.kind is Kind.COLLECTIVE and flow.nranks == 2
        assert view.waiting_bytes == 0 and flow.tx_bytes == flow.expected_tx_bytes
        assert view.snapshot.job == "test-job" and view.snapshot.world_size == 2


def test_the_reader_learned_the_last_phase(ddp: ObservedRun) -> None:
    learned = ddp.views[0].learned
    assert learned.bytes_per_iteration == ddp.printed[0][-1]["bytes"]
    assert learned.changes >= 3, "three model changes"
    assert 0.02e9 < learned.iteration_ns < 1e9


def test_nothing_is_printed(ddp: ObservedRun) -> None:
    assert not any(our_lines(text) for text in ddp.errors)


def test_training_is_bit_for_bit_what_it_is_without_us(ddp: ObservedRun, library_path: Path, tmp_path: Path) -> None:
    without = run_ddp(library_path, tmp_path, PACELINE_SHIM="0")
    assert without.views == {}
    assert without.printed == ddp.printed


def test_fsdp_and_point_to_point_are_counted(library_path: Path, tmp_path: Path) -> None:
    run = run_ranks("fsdp_train.py", child_env(library_path, tmp_path), tmp_path)
    assert not any(our_lines(text) for text in run.errors)
    [phase] = run.printed[0]
    share = phase["bytes"] // 2
    seen = {counter.last_enqueued_bytes for i, counter in run.counters[0].items() if i >= 3}
    # Forward gathers the shards, which the root keeps; backward scatters the gradients.
    assert seen == {2 * share}
    assert max(run.counters[0]) == 6
    kinds = {flow.kind: flow for flow in run.views[0].snapshot.flows}
    assert kinds[Kind.SEND].enqueued_bytes == 200 and kinds[Kind.SEND].peer == 1
    assert next(f for f in run.views[1].snapshot.flows if f.kind is Kind.RECV).rx_bytes == 200


def test_torchrun_and_a_python_without_the_c_library(library_path: Path, tmp_path: Path) -> None:
    env = child_env(library_path, tmp_path) | {
        "PACELINE_SHIM_LIBRARY": "/nonexistent.so",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--rdzv-id=night-run"]
    torchrun += [f"--master-port={free_port()}", str(SCRIPTS / "fsdp_train.py")]
    launch = [sys.executable, "-m", "nccl_shim", "run", "--"]
    done = subprocess.run([*launch, *torchrun], env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pure Python") == 2, "one line a rank, none from torchrun itself"
    with Reader(tmp_path) as reader:
        views = reader.poll()
    assert [(v.snapshot.job, v.snapshot.global_rank, v.snapshot.world_size) for v in views] == [
        ("night-run", 0, 2),
        ("night-run", 1, 2),
    ]
    # Two ranks write to one pipe: their lines may come glued together.
    printed, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])
    share = printed["bytes"] // 2
    assert all(view.snapshot.iteration_counter.last_enqueued_bytes == 2 * share for view in views)
    assert all(view.snapshot.finished and not view.snapshot.native_writer for view in views)


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_an_iteration_ends_once_whatever_the_model_does(backend: str, clean_env: dict) -> None:
    script = str(SCRIPTS / "boundary_cases.py")
    done = subprocess.run(
        [sys.executable, script, backend],
        env=clean_env,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert our_lines(done.stderr) == []
    # The pass that failed did not end; those after it do.
    once_each = dict.fromkeys(("plain", "dict", "object", "no_sync", "unused", "checkpoint"), 3)
    assert json.loads(done.stdout) == once_each | {"fails": 2}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_a_torch_that_knows_us_not_trains_all_the_same(when: str, backend: str, clean_env: dict) -> None:
    command = [sys.executable, str(SCRIPTS / "other_torch.py"), when, backend]
    done = subprocess.run(command, env=clean_env, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    [line] = our_lines(done.stderr)
    assert "renamed" in line


def test_a_backward_pass_waits_for_its_turn_once(library_path: Path, tmp_path: Path) -> None:
    """Not answered: every other pass waits for two slots, at its first bucket and at no other."""
    slot_s = 0.2
    with PageWriter(tmp_path, 1, 1, round(slot_s * 1e9)) as page:
        page.write([Entry(ANY_PEER, State.ASK)])
        where = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        env = child_env(library_path, tmp_path) | where | {"PACELINE_PAGE": str(page.path)}
        command = [*OBSERVED, sys.executable, str(SCRIPTS / "held_train.py")]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            while process.poll() is None:
                page.beat(time.monotonic_ns())
                time.sleep(slot_s)
            assert process.stdout is not None
            took_s = json.loads(process.stdout.read())
    assert [one > 2 * slot_s for one in took_s] == [False, True, False, True], took_s
    assert max(took_s) < 3 * slot_s


class _Old:
    """A finder as it was before Python 3.4."""

    def find_module(self, name: str, path: object = None) -> None:
        return None


def test_a_finder_without_find_spec_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package put it before all others: import torch failed with an error of ours."""
    (tmp_path / "imported_late.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    done: list[str] = []
    ours = AfterImport({"imported_late": lambda: done.append("seen")})
    monkeypatch.setattr(sys, "meta_path", [ours, _Old(), *sys.meta_path])
    __import__("imported_late")
    assert done == ["seen"]


def test_what_a_forward_pass_returns_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from nccl_shim.hooks import torch_hook

    leaf = torch.zeros(1, requires_grad=True)
    loss = 2 * leaf
    assert torch_hook._first_with_grad({"scale": leaf, "loss": (None, [loss])}) is loss, "a leaf would keep its hook"
    assert torch_hook._first_with_grad([leaf]) is None
    looked, parts = 0, torch_hook._parts

    def counted(one: object) -> list[object]:
        nonlocal looked
        looked += 1
        return parts(one)

    class Output:
        def __init__(self, count: int) -> None:
            self.own = [Output(count - 1) for _ in range(4)] if count else []
            self.back, self.module = self, torch.nn.Linear(1, 1)

    monkeypatch.setattr(torch_hook, "_parts", counted)
    assert torch_hook._first_with_grad(Output(2)) is None and looked < 200, "each once, though all refer back"
    looked = 0
    assert torch_hook._first_with_grad(Output(6)) is None and looked <= torch_hook.MOST_PARTS

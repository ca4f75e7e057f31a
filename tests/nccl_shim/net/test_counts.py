"""What the net plugin hands to its transport is in the shim's segment, by address; and that a send waits there."""

import time
from pathlib import Path

from nccl_shim.page.layout import Entry, State, peer_bytes
from nccl_shim.segment.layout import Kind, address_text
from nccl_shim.segment.reader import Reader
from tests.nccl_shim.net.pair import pair
from tests.nccl_shim.net.test_throttle import page_of

CHUNK, COUNT = 1 << 17, 20
PLAN = {"messages": [(CHUNK, 0)] * COUNT, "same_bytes": True, "unchecked": True}


def test_bytes_are_counted_by_address(net_library: Path, library_path: Path, shm_dir: Path) -> None:
    env = {"NCCL_PROFILER_PLUGIN": str(library_path), "PACELINE_SHM_DIR": str(shm_dir), "PACELINE_SOCKET": "0"}
    with pair(net_library, PLAN, extra_env=env) as both:
        both.results()
    with Reader(shm_dir) as reader:
        snapshots = [view.snapshot for view in reader.poll()]
    [sent] = [flow for one in snapshots for flow in one.flows if flow.kind is Kind.ADDRESS]
    assert (address_text(sent.address), sent.enqueued_bytes, sent.enqueued_ops) == ("127.0.0.1", COUNT * CHUNK, COUNT)
    assert all((one.enqueued_bytes, one.tx_bytes) == (0, 0) for one in snapshots), "no part of an iteration's sums"


def test_without_the_profiler_plugin_nothing_is_counted(net_library: Path, shm_dir: Path) -> None:
    with pair(net_library, PLAN, extra_env={"PACELINE_SHM_DIR": str(shm_dir)}) as both:
        both.results()
    assert [*shm_dir.iterdir()] == []


def test_a_send_that_is_held_says_so(net_library: Path, library_path: Path, shm_dir: Path, tmp_path: Path) -> None:
    env = {"NCCL_PROFILER_PLUGIN": str(library_path), "PACELINE_SHM_DIR": str(shm_dir), "PACELINE_SOCKET": "0"}
    held = Entry(peer_bytes("127.0.0.1"), State.HELD, time.monotonic_ns() + 60_000_000_000)
    with page_of(tmp_path, held) as (page, _), Reader(shm_dir) as reader:
        with pair(net_library, PLAN, page=page.path, extra_env=env) as both:
            end_s = time.monotonic() + 10.0
            while not any(view.snapshot.held_ns for view in reader.poll()) and time.monotonic() < end_s:
                time.sleep(0.01)
            assert any(view.snapshot.held_ns for view in reader.poll())
            page.write([])
            both.results()
        assert not any(view.snapshot.held_ns for view in reader.poll())

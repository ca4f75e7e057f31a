"""The throttle: rates as asked, and full speed without a page, with a stale one, and 5 slots after hostd has gone."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from nccl_shim.page.layout import Entry, State, peer_bytes
from nccl_shim.page.writer import PageWriter
from tests.nccl_shim.net.pair import pair

pytestmark = pytest.mark.slow

SLOT_NS = 20_000_000
HERE = peer_bytes("127.0.0.1")
CHUNK = 1 << 17


@contextmanager
def page_of(directory: Path, *entries: Entry) -> Iterator[tuple[PageWriter, threading.Event]]:
    """A page that lives until the event is set."""
    stopped = threading.Event()
    with PageWriter(directory, 1, 1, SLOT_NS) as page:
        page.write(entries)

        def beat() -> None:
            while not stopped.wait(SLOT_NS / 2e9):
                page.beat(time.monotonic_ns())

        beating = threading.Thread(target=beat)
        beating.start()
        try:
            yield page, stopped
        finally:
            stopped.set()
            beating.join()


def rates(times_s: list[float], per_window: int) -> list[float]:
    """Bytes per second of each window of that many messages, the first of which is left out."""
    marks = times_s[per_window::per_window]
    return [per_window * CHUNK / (end - begin) for begin, end in pairwise(marks)]


@pytest.mark.parametrize("gbits", [1, 5, 10])
def test_the_rate_is_the_one_asked_for(net_library: Path, tmp_path: Path, gbits: int) -> None:
    asked = gbits * 125e6
    per_window = int(asked * 0.05 / CHUNK)
    plan: dict[str, Any] = {"messages": [(CHUNK, 0)] * (18 * per_window), "same_bytes": True, "unchecked": True}
    paced = Entry(HERE, State.RATE, 0, asked)
    with page_of(tmp_path, paced) as (page, _), pair(net_library, plan, page=page.path) as both:
        sender, receiver = both.results()
    assert receiver["wrong"] == []
    found = median(rates(receiver["times_s"], per_window))
    assert found <= 1.03 * asked
    too_late = sender["refused"] < len(plan["messages"]) / 2  # for the throttle to hold: the machine is slower, or busy
    assert found >= 0.97 * asked or (gbits > 1 and too_late)


def test_another_peers_rate_is_not_ours(net_library: Path, tmp_path: Path) -> None:
    plan = {"messages": [(CHUNK, 0)] * 40, "same_bytes": True, "unchecked": True}
    slow = Entry(peer_bytes("10.9.9.9"), State.RATE, 0, 125_000)
    with page_of(tmp_path, slow) as (page, _), pair(net_library, plan, page=page.path) as both:
        assert both.results()[0]["refused"] == 0


def test_full_speed_once_hostd_has_gone(net_library: Path, tmp_path: Path) -> None:
    """20 MB at 2 MB/s would take 10 s; the heartbeat ends after a moment."""
    plan = {"messages": [(CHUNK, 0)] * 160, "same_bytes": True, "unchecked": True}
    slow = Entry(HERE, State.RATE, 0, 2e6)
    with page_of(tmp_path, slow) as (page, stopped), pair(net_library, plan, page=page.path) as both:
        time.sleep(1.0)
        stopped.set()
        gone_s = time.monotonic()
        times = both.results()[1]["times_s"]
    before = [at for at in times if at < gone_s]
    assert len(before) < 40
    slots = 5 * SLOT_NS / 1e9
    # The last byte before that may have had to wait a chunk's time, and then all go at once.
    assert times[-1] - gone_s < slots + 2 * CHUNK / 2e6 + 0.5


def test_a_hold_is_bounded(net_library: Path, tmp_path: Path) -> None:
    """Held for ever by a hostd that lives: 2 s, once, and the rest goes."""
    plan = {"messages": [(CHUNK, 0)] * 20, "same_bytes": True, "unchecked": True}
    held = Entry(HERE, State.HELD, 2**62)
    with page_of(tmp_path, held) as (page, _), pair(net_library, plan, page=page.path) as both:
        began_s = time.monotonic()
        times = both.results()[1]["times_s"]
    assert times[0] - began_s > 0.5
    assert times[-1] - times[0] < 1.0 and times[-1] - began_s < 4.0

"""Timers on a real loop: never early, once each, and the last setting counts."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from paceline.service.timer import Timer

MS = 1_000_000
OPEN = Path("/proc/self/fd")


def run(work: Callable[[], Awaitable[None]]) -> None:
    uvloop.run(asyncio.wait_for(work(), 20.0))


@pytest.mark.parametrize("delay_ns", [0, -5, 1, 400_000, 2_500_000, 30 * MS])
def test_it_rings_once_and_never_early(delay_ns: int) -> None:
    async def work() -> None:
        rang: list[int] = []
        heard = asyncio.Event()
        timer = Timer(lambda: (rang.append(time.monotonic_ns()), heard.set()))
        set_ns = time.monotonic_ns()
        timer.set(delay_ns)
        await heard.wait()
        await asyncio.sleep(0.01)
        timer.close()
        assert len(rang) == 1
        assert rang[0] - set_ns >= delay_ns

    run(work)


def test_the_last_setting_counts() -> None:
    async def work() -> None:
        heard = asyncio.Event()
        timer = Timer(heard.set)
        timer.set(1 * MS)
        time.sleep(0.005)  # over, but the loop has not run yet
        timer.set(10_000 * MS)
        await asyncio.sleep(0.02)
        assert not heard.is_set()
        timer.set(1 * MS)
        await heard.wait()
        timer.close()

    run(work)


def test_a_closed_one_is_silent_and_leaves_no_descriptor() -> None:
    async def work() -> None:
        rang: list[int] = []
        before = len(list(OPEN.iterdir()))
        timers = [Timer(lambda: rang.append(1)) for _ in range(20)]
        assert len(list(OPEN.iterdir())) >= before + 20
        for timer in timers:
            timer.set(0)
            timer.close()
        assert len(list(OPEN.iterdir())) == before
        await asyncio.sleep(0.02)
        assert rang == []

    run(work)

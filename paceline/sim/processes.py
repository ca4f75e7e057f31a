"""The same work for many items, in several processes, and without looking for garbage all the time."""

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(work: Callable[[Item], Result], items: Sequence[Item], processes: int, at_once: int = 1) -> Iterator[Result]:
    """In order, as they are done; `at_once`: how many items a process takes at a time."""
    if min(processes, len(items)) <= 1:
        yield from map(work, items)
        return
    # Spawned, not forked: numpy and the progress bar have threads, of which a fork copies only the locks.
    with get_context("spawn").Pool(min(processes, len(items)), _leave_interrupts_to_parent) as pool:
        yield from pool.imap(work, items, at_once)


@contextmanager
def beside(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Callable[[], list[Result]]]:
    """Each item in a process of its own, beside what the caller does meanwhile; yields what waits for the results."""
    with get_context("spawn").Pool(len(items), _leave_interrupts_to_parent) as pool:
        yield pool.map_async(work, items, 1).get


def _leave_interrupts_to_parent() -> None:
    """Ctrl-C reaches every process of the terminal; only the parent should react, by ending the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Objects of a simulation live long: to look through all those of a large cluster for garbage took a seventh of the
    time."""
    usual = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)

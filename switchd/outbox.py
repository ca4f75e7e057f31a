"""The messages that wait to be written to one peer. The queue is bounded: a peer that does not read is dropped."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

# Frames to one neighbour in a slot. A frame costs both ends some 0.2 ms however little is in it: a rack of three
# hosts never needs more, a rack of thirty fills its frames instead of sending more of them.
FRAMES_PER_SLOT = 10


class FramePace:
    """A frame leaves at once as long as there were few lately; else it waits and takes along what comes meanwhile."""

    def __init__(self, slot_s: float) -> None:
        self._every_s = slot_s / FRAMES_PER_SLOT
        self._earliest_s = 0.0  # a frame is on time if sent by a steady sender that began a slot ago

    async def turn(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._earliest_s = max(self._earliest_s, now_s - FRAMES_PER_SLOT * self._every_s)
        if now_s < self._earliest_s:
            await asyncio.sleep(self._earliest_s - now_s)
        self._earliest_s += self._every_s


class Outbox(Generic[T]):
    def __init__(self, max_items: int) -> None:
        self.closed = False
        self._items: deque[T] = deque()
        self._max_items = max_items
        self._writer: asyncio.Future[None] | None = None  # set while the writer waits

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        if len(self._items) >= self._max_items:
            self.closed = True
        elif not self.closed:
            self._items.append(item)
        self._wake()

    def close(self) -> None:
        self.closed = True
        self._wake()

    async def take(self, pace: FramePace | None = None) -> list[T]:
        """All waiting items, at least one; an empty list once the outbox was closed or too full."""
        while not self._items and not self.closed:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        if pace is not None:
            await pace.turn()
        items = list(self._items) if not self.closed else []
        self._items.clear()
        return items

    def _wake(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

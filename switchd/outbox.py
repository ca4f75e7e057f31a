"""What waits to be written to one peer, bounded: a peer that does not read is dropped, not waited for."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    def __init__(self, most: int) -> None:
        self.closed = False
        self._items: deque[T] = deque()
        self._most = most
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        if len(self._items) >= self._most:
            self.closed = True
        elif not self.closed:
            self._items.append(item)
        self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def take(self) -> list[T]:
        """Everything that waits, at least one; nothing any more once it was closed or too full."""
        while not self._items and not self.closed:
            self._wake.clear()
            await self._wake.wait()
        items = list(self._items) if not self.closed else []
        self._items.clear()
        return items

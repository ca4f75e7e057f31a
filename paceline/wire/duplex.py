"""The two directions of a stream end together.

A stream that only reads would drop all messages to be written until the connection breaks; a stream that only writes
would not notice its end.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def both(reading: Coroutine[Any, Any, None], writing: Coroutine[Any, Any, None]) -> None:
    """Until one ends or fails, which ends the other. If both failed, reading's error is raised: it has the status."""
    tasks = [asyncio.ensure_future(reading), asyncio.ensure_future(writing)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""The two directions of a stream end together.

One that only hears would drop whatever we say until the connection breaks; one that only speaks would never know.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def both(reading: Coroutine[Any, Any, None], writing: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends or fails; then neither goes on. If both failed, reading says why: it has the status."""
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

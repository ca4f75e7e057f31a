"""Mutants in blocks. Each block has a new target and a seed of its own, so that a failure is found again by its seed.

    paceline bench fuzz wire --count 1000000 --seed 1         blocks 1, 2, 3, …
    paceline bench fuzz wire --count 10000 --seed 17          block 17 alone

Memory is what the process holds after the first block and after the last: what grows in between grows with input.
"""

import asyncio
import gc
import logging
import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from bench.fuzz.target import Target

BLOCK = 10_000
BREATH = 500  # mutants between two turns of the event loop
PAGE_BYTES = 4096
MOST_GROWTH_BYTES = 24_000_000
MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class Failure:
    seed: int  # of its block
    number: int  # in the block
    error: str


@dataclass(slots=True)
class Campaign:
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    first_bytes: int = 0
    last_bytes: int = 0
    wall_s: float = 0.0

    @property
    def mutants(self) -> int:
        return self.outcomes.total() + len(self.failures)

    @property
    def grew_bytes(self) -> int:
        return max(0, self.last_bytes - self.first_bytes)

    @property
    def good(self) -> bool:
        return not self.failures and self.grew_bytes <= MOST_GROWTH_BYTES


def run(make: Callable[[], Target], count: int, seed: int, progress: Callable[[int], None] | None = None) -> Campaign:
    done, began_s = Campaign(), perf_counter()
    logging.disable()  # of refusals
    while done.mutants < count and len(done.failures) < MOST_FAILURES:
        asyncio.run(_block(make, seed, min(BLOCK, count - done.mutants), done))
        seed += 1
        gc.collect()
        done.last_bytes = _resident_bytes()
        done.first_bytes = done.first_bytes or done.last_bytes
        done.wall_s = perf_counter() - began_s
        if progress is not None:
            progress(done.mutants)
    logging.disable(logging.NOTSET)
    return done


async def _block(make: Callable[[], Target], seed: int, count: int, done: Campaign) -> None:
    draws, target = random.Random(seed), make()
    began = done.mutants
    try:
        while (number := done.mutants - began) < count:
            try:
                done.outcomes.update(await target.feed(draws))
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
                done.failures.append(Failure(seed, number, what))
                if len(done.failures) >= MOST_FAILURES:
                    return
            if not number % BREATH:
                await asyncio.sleep(0)
    finally:
        await target.close()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES

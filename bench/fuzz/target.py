"""What is fuzzed. Law: `feed` returns how its input was taken; whatever it raises is a failure."""

import random
from collections import Counter
from typing import ClassVar, Protocol


class Target(Protocol):
    name: ClassVar[str]

    async def feed(self, draws: random.Random) -> Counter[str]:
        """Make one mutant, or a few, and hand them over: how many were taken, and how many refused for which reason."""

    async def close(self) -> None: ...

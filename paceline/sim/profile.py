"""Where the time of a simulation goes: its own time by function, and by room of the house.

The profiler makes Python slower than it is, and C no slower: what steps_in_c.py takes is more of the time than it says.
"""

import cProfile
import pstats
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = "Python"  # its own functions, and other libraries


@dataclass(frozen=True, slots=True)
class Spent:
    where: str  # a room, or file and function
    calls: int
    own_s: float
    share: float  # of all


@dataclass(slots=True)
class Profile:
    rooms: tuple[Spent, ...] = ()
    functions: tuple[Spent, ...] = ()

    def document(self, most: int) -> dict[str, object]:
        return {
            "rooms": [asdict(spent) for spent in self.rooms],
            "functions": [asdict(spent) for spent in self.functions[:most]],
        }


@contextmanager
def profiling() -> Iterator[Profile]:
    """What it yields is filled in when the block ends."""
    profile, profiler = Profile(), cProfile.Profile()
    profiler.enable()
    try:
        yield profile
    finally:
        profiler.disable()
        profile.rooms, profile.functions = _read(pstats.Stats(profiler))


def _read(stats: pstats.Stats) -> tuple[tuple[Spent, ...], tuple[Spent, ...]]:
    rooms: dict[str, tuple[int, float]] = {}
    functions: dict[str, tuple[int, float]] = {}
    for (file, _, name), (_, calls, own_s, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        place = _place(file)
        room = str(Path(place).parent) if place != ELSEWHERE else place
        for sums, key in ((rooms, room), (functions, f"{place} {name}")):
            counted, spent_s = sums.get(key, (0, 0.0))
            sums[key] = counted + calls, spent_s + own_s
    return _ranked(rooms), _ranked(functions)


def _place(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(ROOT)) if path.is_absolute() and path.is_relative_to(ROOT / "paceline") else ELSEWHERE


def _ranked(sums: dict[str, tuple[int, float]]) -> tuple[Spent, ...]:
    total_s = sum(spent_s for _, spent_s in sums.values()) or 1.0
    found: Iterable[Spent] = (
        Spent(where, calls, spent_s, spent_s / total_s) for where, (calls, spent_s) in sums.items()
    )
    return tuple(sorted(found, key=lambda spent: -spent.own_s))

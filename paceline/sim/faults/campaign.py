"""Many histories, one after the other or in several processes; those that fail are shrunk where they ran."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from paceline.sim.faults.draw import draw
from paceline.sim.faults.history import encode
from paceline.sim.faults.run import check
from paceline.sim.faults.shrink import shrink
from paceline.sim.processes import each


class Failure(NamedTuple):
    seed: int
    topology: str
    rule: str
    what: str  # of the shrunk history
    lines: list[str]  # the shrunk history, for people ...
    history: str  # ... and for the file of those that once failed


def run_histories(
    first_seed: int, count: int, topologies: Sequence[str], slots: int, workers: int
) -> Iterator[Failure | None]:
    """As they are done, in order: None where all held. Every seed runs on one of the topologies in turn."""
    which = [(first_seed + n, topologies[n % len(topologies)]) for n in range(count)]
    return each(partial(run_history, slots), which, workers, at_once=8)


def run_history(slots: int, which: tuple[int, str]) -> Failure | None:
    seed, topology = which
    verdict = check(draw(seed, topology, slots))
    if not verdict.rule:
        return None
    smallest = shrink(verdict)
    history = smallest.history
    return Failure(seed, topology, smallest.rule, smallest.what, history.lines(), encode(history))

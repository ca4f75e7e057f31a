"""How much each pair of workers exchanges in each phase of an all-reduce: Titan's C^t_{n,n'} (§II-B).

    halving-doubling   partners n/2, n/4, … 1 apart exchange K/2, K/4, … K/n, then the same backwards. Workers beyond
                       the largest power of two hand their vector to a partner first and get the result last
    ring               2(n-1) phases in which every worker passes K/n on to the next

A pair's exchange is counted once, as in the paper: in halving-doubling K/2 is what each worker sends to its partner.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Pair = tuple[int, int]  # in a ring: from, to


@dataclass(frozen=True, slots=True)
class Phase:
    bytes_of: Mapping[Pair, float]
    times: int  # phases like this one
    both_ways: bool = True  # each worker of a pair sends as much to its partner


def halving_doubling(workers: int, size_bytes: float) -> tuple[Phase, ...]:
    core = 1 << (workers.bit_length() - 1)
    phases = []
    if workers > core:
        phases.append(Phase({(extra - core, extra): size_bytes for extra in range(core, workers)}, 2))
    distance, exchanged_bytes = core // 2, size_bytes / 2
    while distance:
        pairs = [(one, one ^ distance) for one in range(core) if one < one ^ distance]
        phases.append(Phase(dict.fromkeys(pairs, exchanged_bytes), 2))
        distance, exchanged_bytes = distance // 2, exchanged_bytes / 2
    return tuple(phases)


def ring(workers: int, size_bytes: float) -> tuple[Phase, ...]:
    pairs = [(one, (one + 1) % workers) for one in range(workers)] if workers > 1 else []
    return (Phase(dict.fromkeys(pairs, size_bytes / workers), 2 * (workers - 1), both_ways=False),)


COLLECTIVES: dict[str, Callable[[int, float], Sequence[Phase]]] = {
    "halving-doubling": halving_doubling,
    "ring": ring,
}


def totals(phases: Sequence[Phase]) -> dict[Pair, float]:
    """What each pair exchanges in all phases together."""
    found: dict[Pair, float] = {}
    for phase in phases:
        for pair, size_bytes in phase.bytes_of.items():
            found[pair] = found.get(pair, 0.0) + phase.times * size_bytes
    return found

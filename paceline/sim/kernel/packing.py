"""The packing of a group of few jobs, compiled where there was a compiler (packing.c); flowcore's own otherwise.

`Table` mirrors the structure of packing.c field by field.
"""

import ctypes
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np

from paceline.flowcore.allocation.arbiters import LARGEST_EXACT, Packing
from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.sim.kernel.library import COLUMN, FRACTION, NUMBER, library


class Table(ctypes.Structure):
    _fields_ = (
        *((name, NUMBER) for name in ("jobs", "kept")),
        *((name, COLUMN) for name in ("first", "link", "flows", "capacity", "alone", "rows", "names", "tableau")),
    )


class Rates(Protocol):
    def rates(self, weights: Sequence[float], /) -> list[float]:
        """Of each job's flows, as Packing.rates."""


class _Scratch:
    """For the tableau of whichever packing is solved now: groups are kept by the thousand."""

    def __init__(self) -> None:
        self._memory: Floats = np.empty(1024)

    def of(self, size: int) -> Floats:
        if size > len(self._memory):
            self._memory = np.empty(2 * size)
        return self._memory


_scratch = _Scratch()


class CompiledPacking:
    def __init__(self, links: Sequence[Ints], flows: Sequence[Floats], capacity_bps: Floats) -> None:
        """Of each job the numbers of its links, and beside them how many of its flows cross each; of every link its
        capacity, which is not copied."""
        compiled, jobs = library(), len(links)
        assert compiled is not None
        first = np.fromiter(accumulate(map(len, links), initial=0), np.int64, jobs + 1)
        link, counts = np.concatenate(links), np.concatenate(flows)
        entries = len(link)
        numbers, names = np.empty(jobs + entries * jobs), np.empty(entries, np.int64)
        tableau = _scratch.of((entries + 1) * (jobs + entries + 1))
        rows = numbers.ctypes.data + jobs * numbers.itemsize
        given = (first.ctypes.data, link.ctypes.data, counts.ctypes.data, capacity_bps.ctypes.data)
        table = Table(jobs, 0, *given, numbers.ctypes.data, rows, names.ctypes.data, tableau.ctypes.data)
        self._held = (first, link, counts, capacity_bps, numbers, names, tableau, table)  # what the table points to
        self._table, self._function = ctypes.byref(table), compiled.packing_rates
        self._weights, self._found = (FRACTION * jobs)(), (FRACTION * jobs)()
        compiled.packing_rows(self._table)

    def rates(self, weights: Sequence[float], /) -> list[float]:
        self._weights[:] = [*weights]
        if not self._function(self._table, self._weights, self._found):
            raise ArithmeticError("unbounded: a job with weight crosses no link")
        return self._found[:]


def packing_of(
    flows_on: Sequence[Mapping[str, int]],
    capacity_bps: Mapping[str, float],
    links: Sequence[Ints],
    flows: Sequence[Floats],
    links_bps: Floats,
) -> Rates:
    """Of several jobs, by the names of their links and by their numbers."""
    if library() is None or not 1 < len(links) <= LARGEST_EXACT:
        return Packing(flows_on, capacity_bps)
    return CompiledPacking(links, flows, links_bps)

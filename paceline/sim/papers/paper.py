"""A paper: its set-up, the runs that repeat it, and its claims.

A run is a name; with a seed it gives a flat row of figures, and depends on nothing else. Claims are computed from rows
alone, so runs may be done anywhere and in any order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paceline.sim.papers.claim import Claim
from paceline.sim.papers.panel import Panel
from paceline.sim.papers.results import Results, Row


@dataclass(frozen=True, slots=True)
class Paper:
    name: str
    title: str
    set_up: str  # as the paper has it
    assumed: tuple[str, ...]  # where it is silent, or we differ
    seeds: int  # unless told otherwise
    quick: str  # what --quick cuts
    runs: Callable[[bool], Sequence[str]]  # of each seed; quick
    perform: Callable[[str, int, bool], Row]  # a run; a seed; quick
    claims: Callable[[Results], Iterator[Claim]]
    panels: Callable[[Results], Sequence[Panel]] = lambda results: ()  # of its figure


__all__ = ["Paper", "Results", "Row"]

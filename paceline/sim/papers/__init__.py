"""Papers, by the name on the command line: `paceline sim paper NAME`. A new one is one file here and one line below."""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.sim.papers import ada_srsf, cassini, dally, titan
from paceline.sim.papers.paper import Paper, Results, Row
from paceline.sim.processes import each

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (ada_srsf.PAPER, cassini.PAPER, dally.PAPER, titan.PAPER)}


@dataclass(frozen=True, slots=True)
class Cell:
    """One run with one seed; a process finds the rest by the paper's name."""

    paper: str
    run: str
    seed: int
    quick: bool


def cells(paper: Paper, seeds: int, *, quick: bool) -> list[Cell]:
    return [Cell(paper.name, run, seed, quick) for seed in range(1, seeds + 1) for run in paper.runs(quick)]


def perform(cell: Cell) -> Row:
    return PAPERS[cell.paper].perform(cell.run, cell.seed, cell.quick)


def performed(wanted: list[Cell], processes: int) -> Iterator[Row]:
    """In order, as they are done."""
    return each(perform, wanted, processes)


def results(wanted: list[Cell], rows: list[Row]) -> Results:
    by_run: dict[str, list[Row]] = {}
    for cell, row in zip(wanted, rows, strict=True):
        by_run.setdefault(cell.run, []).append(row)
    return Results(by_run)

"""Papers, by the name on the command line: `paceline sim paper NAME`. A new one is one file here and one line below."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time

from paceline.sim.papers import ada_srsf, cassini, dally, mlcc, titan
from paceline.sim.papers.paper import Paper, Results, Row
from paceline.sim.processes import each
from paceline.sim.trace.sweep import append, read_rows

PAPERS: dict[str, Paper] = {
    paper.name: paper for paper in (ada_srsf.PAPER, cassini.PAPER, dally.PAPER, mlcc.PAPER, titan.PAPER)
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One run with one seed; a process finds the rest by the paper's name."""

    paper: str
    run: str
    seed: int
    quick: bool


@dataclass(frozen=True, slots=True)
class Done:
    """A cell's row, and what it cost."""

    cell: Cell
    row: Row
    cpu_s: float


def cells(paper: Paper, seeds: int, *, quick: bool) -> list[Cell]:
    return [Cell(paper.name, run, seed, quick) for seed in range(1, seeds + 1) for run in paper.runs(quick)]


def perform(cell: Cell) -> Row:
    return PAPERS[cell.paper].perform(cell.run, cell.seed, cell.quick)


def timed(cell: Cell) -> Done:
    began_s = process_time()
    row = perform(cell)
    return Done(cell, row, process_time() - began_s)


def performed(wanted: list[Cell], processes: int, kept: Path | None = None) -> Iterator[Done]:
    """As they are done. Cells that are in the file `kept` are not done again, and those that are done now are added."""
    found = {done.cell: done for done in read(kept)} if kept else {}
    yield from (found[cell] for cell in wanted if cell in found)
    for done in each(timed, [cell for cell in wanted if cell not in found], processes):
        if kept:
            append(kept, asdict(done))
        yield done


def read(kept: Path) -> list[Done]:
    return [Done(Cell(**line["cell"]), line["row"], line["cpu_s"]) for line in read_rows(kept)]


def results(wanted: list[Cell], rows: list[Row]) -> Results:
    by_run: dict[str, list[Row]] = {}
    for cell, row in zip(wanted, rows, strict=True):
        by_run.setdefault(cell.run, []).append(row)
    return Results(by_run)

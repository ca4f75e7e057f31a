"""`paceline sim paper`: the claims of a paper, beside what its set-up gives here."""

import argparse
import os
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.commands.arguments import CommandError, add_json, integer

QUICK_SEEDS = 2


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "paper",
        help="a paper's claims, repeated",
        description=(
            "Repeat a paper's experiments in the set-up that the paper has, and print each claim beside what\n"
            "comes out here: the mean over the seeds, the least and the most, and whether the claim holds (a\n"
            "figure: two thirds of the paper's; an order: the same order). At most 15 minutes on two cores."
        ),
        epilog="example: paceline sim paper ada-srsf --quick",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="of the paper; see --list")
    parser.add_argument("--list", action="store_true", help="the papers")
    parser.add_argument("--quick", action="store_true", help="a cut of it, in a minute")
    parser.add_argument("--seeds", metavar="N", type=integer(1, 1000), help="1 to N (default: the paper's own number)")
    parser.add_argument(
        "--processes", metavar="N", type=integer(1, 1024), default=os.cpu_count(), help="default: one per CPU"
    )
    parser.add_argument(
        "--results", metavar="FILE.jsonl", type=Path, help="keep every run here, and do only those that are missing"
    )
    parser.add_argument("--figure", metavar="OUT.png", type=Path, help="draw the paper's figure, with our figures")
    add_json(parser)
    parser.set_defaults(run=run_paper)


def run_paper(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim import papers
    from paceline.sim.papers.claim import shown
    from paceline.sim.papers.panel import without_points

    if args.list:
        return _list(papers.PAPERS.values(), as_json=args.json)
    known = ", ".join(papers.PAPERS)
    if args.name not in papers.PAPERS:
        raise CommandError(f"no paper {args.name!r}; expected one of {known}" if args.name else f"which? {known}")
    paper = papers.PAPERS[args.name]
    if args.figure:
        _require_figure(args.figure)
    seeds = args.seeds or (QUICK_SEEDS if args.quick else paper.seeds)
    wanted = papers.cells(paper, seeds, quick=args.quick)
    started_s = perf_counter()
    done = {}
    with progress_bar() as bar:
        task = bar.add_task(f"{len(wanted)} runs", total=len(wanted))
        for one in papers.performed(wanted, args.processes, args.results):
            done[one.cell] = one
            bar.advance(task)
    found = papers.results(wanted, [done[cell].row for cell in wanted])
    claims = list(paper.claims(found))
    if args.figure:
        from paceline.sim.report.paper_figure import draw

        draw(paper.panels(found), f"{paper.title.partition(':')[0]}, here", args.figure)
    if args.json:
        document = {
            "paper": paper.name,
            "title": paper.title,
            "seeds": seeds,
            "quick": args.quick,
            "cut": paper.quick if args.quick else None,
            "set_up": paper.set_up,
            "assumed": paper.assumed,
            "claims": [asdict(claim) for claim in claims],
            "runs": {
                run: {key: found.mean(run, key) for key, _ in without_points(of[0])} for run, of in found.rows.items()
            },
            "cpu_s": sum(one.cpu_s for one in done.values()),  # also of runs that were kept
            "wall_s": perf_counter() - started_s,
            "figure": args.figure and str(args.figure),
        }
        print_json(document | provenance())
        return 0
    columns = ("claim", "section", "paper", "here", "least … most", "holds")
    lines = [
        (
            claim.claim,
            claim.section,
            shown(claim.paper, claim.unit),
            shown(claim.here, claim.unit),
            f"{claim.spread[0]:.1f} … {claim.spread[1]:.1f}",
            "yes" if claim.holds else "no",
        )
        for claim in claims
    ]
    cut = f", {paper.quick}" if args.quick else ""
    print_table(f"{paper.title}: seeds 1 to {seeds}{cut}", columns, lines)
    for claim in claims:
        if not claim.holds:
            print(f"does not hold: {claim.claim}. {claim.why}")
    return 0


def _require_figure(path: Path) -> None:
    from paceline.sim.report.figure import FigureError, require_figures

    try:
        require_figures(path)
    except FigureError as error:
        raise CommandError(str(error)) from None


def _list(papers: Any, *, as_json: bool) -> int:
    from paceline.commands.console import print_json, print_table

    if as_json:
        print_json({"papers": [{"name": paper.name, "title": paper.title, "seeds": paper.seeds} for paper in papers]})
    else:
        print_table("papers", ("name", "title"), [(paper.name, paper.title) for paper in papers])
    return 0

"""`paceline sim compare`: tables and distributions of a sweep's results."""

import argparse
from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError, add_json
from paceline.commands.sim.sweep_results import no_results, stored_rows


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="tables and distributions of a sweep's results",
        description="Compare the policies of a sweep: a table per trace, and the distributions as a figure.",
        epilog="example: paceline sim compare out/sweep.jsonl --figure out/sweep.png",
    )
    parser.add_argument("results", metavar="RESULTS", type=Path, help="JSON lines of paceline sim sweep")
    parser.add_argument(
        "--against", metavar="P", default="paceline", help="whose gain over the others to show (default: paceline)"
    )
    parser.add_argument("--figure", metavar="OUT.png", type=Path, help="draw the distributions, or the matrix")
    parser.add_argument(
        "--by",
        choices=("policy", "placement", "matrix"),
        default="policy",
        help="what to compare; matrix: placements down, policies across (default: policy)",
    )
    add_json(parser)
    parser.set_defaults(run=run_compare)


def run_compare(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table
    from paceline.commands.provenance import provenance
    from paceline.sim.report.figure import FigureError, require_figures

    rows = [row for row in stored_rows(args.results) if row.get("mean_jct_s") is not None]
    if not rows:
        raise CommandError(f"{args.results}: found no finished run, expected the results of a sweep")
    if args.figure:
        try:
            require_figures(args.figure)
        except FigureError as error:
            raise CommandError(str(error)) from None
    try:
        tables = _compared(rows, args)
    except (LookupError, TypeError, AttributeError):  # JSON, but not of a sweep of this version
        raise no_results(args.results) from None
    if args.json:
        named = {
            title: [dict(zip(columns, line, strict=True)) for line in lines]
            for title, (columns, lines) in tables.items()
        }
        print_json({"tables": named, "figure": str(args.figure) if args.figure else None} | provenance())
        return 0
    for title, (columns, lines) in tables.items():
        print_table(title, columns, lines)
    return 0


def _compared(rows: list[dict[str, Any]], args: argparse.Namespace) -> dict[str, Any]:
    """By title, columns and lines; draws the figure as well, where one is wanted."""
    from paceline.sim.report import matrix, placement_table, policy_table, trace_figure

    if args.figure:
        (matrix if args.by == "matrix" else trace_figure).draw(rows, args.figure)
    if args.by == "policy":
        return dict(policy_table.tables(rows, args.against))
    return dict(placement_table.tables(rows) if args.by == "placement" else matrix.tables(rows))

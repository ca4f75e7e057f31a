"""`paceline sim lies`: what a job that lies costs the other jobs."""

import argparse
import os
from typing import Any

from paceline.commands.arguments import add_json, integer, number, seed
from paceline.commands.sim.mixes import LARGEST_DURATION_S, MOST_MIXES


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "lies",
        help="what a job that lies costs the other jobs",
        description=(
            "Let the hosts of one job tell their switch what is not so (false urgency, nothing remaining, flows\n"
            "that do not exist, another job's name), and compare the other jobs' iterations with those under fair,\n"
            "which is what they get without control. Links that are too small for their jobs come first, then\n"
            "random mixes."
        ),
        epilog="example: paceline sim lies --mixes 20",
    )
    parser.add_argument("--mixes", metavar="N", type=integer(0, MOST_MIXES), default=4, help="random ones (default: 4)")
    parser.add_argument("--seed", metavar="S", type=seed, default=1, help="default: %(default)s")
    parser.add_argument(
        "--duration-s",
        metavar="S",
        type=number(1.0, LARGEST_DURATION_S),
        default=60.0,
        help="simulated seconds per run (default: %(default)s)",
    )
    parser.add_argument(
        "--processes", metavar="N", type=integer(1, 1024), default=os.cpu_count(), help="default: one per CPU"
    )
    add_json(parser)
    parser.set_defaults(run=run_lies)


def run_lies(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim.lies.cost import CROWDS, costs, scenarios

    wanted = scenarios(args.mixes, args.seed, args.duration_s)
    found = []
    with progress_bar() as bar:
        task = bar.add_task(f"{len(wanted)} scenarios", total=len(wanted))
        for one in costs(wanted, args.seed, args.processes):
            found.append(one)
            bar.advance(task)
    if args.json:
        document = {"seed": args.seed, "duration_s": args.duration_s, "scenarios": [asdict(one) for one in found]}
        print_json(document | provenance())
        return 0
    crowds, mixes = found[: len(CROWDS)], found[len(CROWDS) :]
    columns = ["", *(one.scenario for one in crowds), *(("mixes, mean", "worst") if mixes else ())]
    rows = [
        _row(lie, [one.slower[lie] for one in crowds], [one.slower[lie] for one in mixes]) for lie in found[0].slower
    ]
    print_table(f"the other jobs' iterations, as a multiple of those under fair (seed {args.seed})", columns, rows)
    return 0


def _row(lie: str, crowds: list[float], mixes: list[float]) -> tuple[str, ...]:
    of_mixes = [sum(mixes) / len(mixes), max(mixes)] if mixes else []
    return (lie, *(f"{value:.3f}" for value in (*crowds, *of_mixes)))

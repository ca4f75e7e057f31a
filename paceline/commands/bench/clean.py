"""`paceline bench clean`: remove what a killed testbed left behind."""

import argparse
from typing import Any

from paceline.commands.arguments import add_json


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "clean",
        help="remove what a killed testbed left behind",
        description=(
            "Kill the processes and remove the directories of testbeds whose owner is gone. Namespaces, devices\n"
            "and qdiscs have no name of their own and go with the last process in them."
        ),
        epilog="example: paceline bench clean",
    )
    add_json(parser)
    parser.set_defaults(run=run_clean)


def run_clean(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from bench.testbed.leftovers import remove_leftovers
    from paceline.commands.console import print_json

    removed = remove_leftovers()
    if args.json:
        print_json(asdict(removed))
        return 0
    print(f"killed {len(removed.pids)} processes, removed {len(removed.directories)} directories")
    return 0

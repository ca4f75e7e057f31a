"""`paceline bench scale`: what larger clusters need, from a measurement of `paceline bench negotiate`."""

import argparse
from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError, add_json, integer


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "scale",
        help="what larger clusters need, from a measurement",
        description=(
            "Compute how many switch processes, cores and how much bandwidth a cluster needs, from what\n"
            "`paceline bench negotiate --switches N --json` measured (N of 3 or more)."
        ),
        epilog="example: paceline bench scale docs/results/switchd/negotiate-96.json --hosts 1000",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="JSON of paceline bench negotiate")
    parser.add_argument("--hosts", metavar="N", type=integer(1, 10_000_000), action="append", help="1000 and 10000")
    add_json(parser)
    parser.set_defaults(run=run_scale)


def run_scale(args: argparse.Namespace) -> int:
    from bench.micro.scale import needs
    from bench.report.page import read_object
    from paceline.commands.console import print_json, print_table

    try:
        measured = read_object(args.file, "paceline bench negotiate --json")
        found = [needs(measured, hosts) for hosts in args.hosts or (1000, 10_000)]
    except ValueError as error:
        raise CommandError(f"{args.file}: {error}") from None
    if args.json:
        print_json({"from": args.file.name, "commit": measured.get("commit"), "needs": found})
        return 0
    columns = [f"{need['hosts']} hosts" for need in found]
    rows = [(key.replace("_", " "), *(str(need[key]) for need in found)) for key in found[0] if key != "hosts"]
    print_table(f"From {args.file}", ("", *columns), rows)
    return 0

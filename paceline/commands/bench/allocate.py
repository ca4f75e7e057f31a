"""`paceline bench allocate`: how long Algorithm 1 takes."""

import argparse
from typing import Any

from paceline.commands.arguments import add_json


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "allocate",
        help="the time a plan takes",
        description=(
            "Time Algorithm 1: per flow, by horizon, and for a host's decision on 10 flows (horizon 10),\n"
            "each planned in the room that those before it left."
        ),
        epilog="example: paceline bench allocate --json",
    )
    add_json(parser)
    parser.set_defaults(run=run_allocate)


def run_allocate(args: argparse.Namespace) -> int:
    from bench.micro.allocate import measure_allocate, measure_decisions
    from paceline.commands.console import print_json, print_table
    from paceline.commands.provenance import provenance

    us_per_flow = measure_allocate()["us_per_flow"]
    decisions = measure_decisions()
    if args.json:
        print_json({"us_per_flow": us_per_flow} | decisions | provenance())
        return 0
    rows = [(f"one flow, horizon {horizon}", f"{us:.1f}") for horizon, us in us_per_flow.items()]
    rows.append(("10 flows, horizon 10, 90th percentile", f"{decisions['p90_decision_us']:.1f}"))
    print_table("Planning", ("", "µs"), rows)
    return 0

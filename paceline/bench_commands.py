"""`paceline bench`: how fast the parts are on this machine."""

import argparse
from typing import Any

from paceline import paper_commands, rate_command, testbed_commands
from paceline.arguments import add_json


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure the parts on this machine",
        description="Measure the parts on this machine.",
        epilog="example: paceline bench allocate",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    allocate = commands.add_parser(
        "allocate",
        help="the time a plan takes",
        description=(
            "Time Algorithm 1: per flow, by horizon, and for a host's decision on 10 flows (horizon 10),\n"
            "each planned in the room that those before it left."
        ),
        epilog="example: paceline bench allocate --json",
    )
    add_json(allocate)
    allocate.set_defaults(run=run_allocate)
    rate_command.add_parser(commands)
    testbed_commands.add_parsers(commands)
    paper_commands.add_parsers(commands)


def run_allocate(args: argparse.Namespace) -> int:
    from bench.allocate import measure_allocate, measure_decisions
    from paceline.console import print_json, print_table
    from paceline.provenance import provenance

    us_per_flow = measure_allocate()["us_per_flow"]
    decisions = measure_decisions()
    if args.json:
        print_json({"us_per_flow": us_per_flow} | decisions | provenance())
        return 0
    rows = [(f"one flow, horizon {horizon}", f"{us:.1f}") for horizon, us in us_per_flow.items()]
    rows.append(("10 flows, horizon 10, 90th percentile", f"{decisions['p90_decision_us']:.1f}"))
    print_table("Planning", ("", "µs"), rows)
    return 0

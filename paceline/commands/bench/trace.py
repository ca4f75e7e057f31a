"""`paceline bench trace`: what a simulated second of a whole cluster costs, by its size."""

import argparse
from pathlib import Path
from typing import Any

from paceline.commands.arguments import add_json, integer, number, placement_name, policy_name

SIZES = (100, 300, 1000)


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "trace",
        help="the simulator's time and memory, by the size of the cluster",
        description=(
            "Simulate clusters of several sizes for some seconds, every iteration in detail, and show what a\n"
            "simulated second costs beside the number of flows that send: the one should not outgrow the other."
        ),
        epilog="example: paceline bench trace workloads/engines/thousand.toml --servers 100 --servers 300",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="generated workload (TOML)")
    parser.add_argument("--servers", metavar="N", type=integer(2, 100_000), action="append", help="100, 300 and 1000")
    parser.add_argument("--placement", metavar="PL", type=placement_name, default="random", help="default: random")
    parser.add_argument("--policy", metavar="P", type=policy_name, default="paceline", help="default: paceline")
    parser.add_argument("--step-ms", metavar="MS", type=number(0.01, 1000.0), default=5.0, help="default: 5")
    parser.add_argument(
        "--arrived-s", metavar="S", type=number(0.0, 1e6), default=15.0, help="begin to measure then (default: 15)"
    )
    parser.add_argument(
        "--simulated-s", metavar="S", type=number(0.1, 1e6), default=10.0, help="and for how long (default: 10)"
    )
    add_json(parser)
    parser.set_defaults(run=run_trace_cost)


def run_trace_cost(args: argparse.Namespace) -> int:
    from bench.micro.trace_cost import Setup, document, measure
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance

    setup = Setup(args.file, args.placement, args.policy, args.step_ms, args.arrived_s, args.simulated_s)
    sizes = tuple(args.servers or SIZES)
    costs = []
    with progress_bar() as bar:
        task = bar.add_task(args.file.name, total=len(sizes))
        for cost in measure(setup, sizes):
            costs.append(cost)
            bar.advance(task)
    if args.json:
        print_json(document(setup, costs) | provenance())
        return 0
    columns = ("servers", "jobs", "flows", "sending", "CPU s per simulated s", "µs per flow that sends", "MB")
    rows = [
        (
            str(cost.servers),
            str(cost.jobs_running),
            str(cost.flows),
            f"{cost.flows_sending:.0f}",
            f"{cost.cpu_s_per_simulated_s:.3f}",
            f"{cost.us_per_flow_and_simulated_s:.0f}",
            f"{cost.peak_memory_mb:.0f}",
        )
        for cost in costs
    ]
    print_table(f"{args.file.name} under {args.policy}, {args.placement} placement", columns, rows)
    return 0

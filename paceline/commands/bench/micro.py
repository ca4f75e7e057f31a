"""`paceline bench`: how fast the parts are on this machine."""

import argparse
from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError, add_json, daemon_policy_name, integer, number, seed
from paceline.commands.bench import hostd as hostd_command
from paceline.commands.bench import jobs as testbed_commands
from paceline.commands.bench import paper as paper_commands
from paceline.commands.bench import rate as rate_command
from paceline.commands.bench import trace_cost as trace_cost_command


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure the parts on this machine",
        description="Measure the parts on this machine.",
        epilog="example: paceline bench allocate",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_allocate(commands)
    _add_negotiate(commands)
    _add_scale(commands)
    trace_cost_command.add_parser(commands)
    rate_command.add_parser(commands)
    testbed_commands.add_parsers(commands)
    hostd_command.add_parsers(commands)
    paper_commands.add_parsers(commands)


def _add_allocate(commands: Any) -> None:
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


def _add_negotiate(commands: Any) -> None:
    parser = commands.add_parser(
        "negotiate",
        help="hosts and switches over gRPC",
        description=(
            "Start real switchd processes on loopback and let many hosts negotiate with them, once a slot each:\n"
            "how long from asking to deciding (a missed slot counts as what it took, a slot at least), how many\n"
            "slots were missed, what it costs. With several switches all but one are ToRs and the last is a spine.\n"
            "One process stands for all hosts, cheaply; see bench/micro/load_hosts.py for what it leaves out. Control\n"
            "bandwidth is the loopback interface's: let nothing else use it meanwhile."
        ),
        epilog="example: paceline bench negotiate --hosts 6 --switches 3 --slots 1000",
    )
    parser.add_argument("--hosts", metavar="N", type=integer(2, 10_000), required=True, help="how many hosts")
    parser.add_argument("--switches", metavar="N", type=integer(1, 1000), default=1, help="default: one for all")
    parser.add_argument("--slots", metavar="N", type=integer(1, 1_000_000), default=500, help="default: %(default)s")
    parser.add_argument("--flows", metavar="N", type=integer(1, 10_000), default=10, help="per host (%(default)s)")
    parser.add_argument("--policy", metavar="P", type=daemon_policy_name, default="mlcc", help="default: %(default)s")
    parser.add_argument(
        "--across",
        metavar="F",
        type=number(0.0, 1.0),
        default=0.25,
        help="part of the jobs with workers in several racks (default: %(default)s)",
    )
    parser.add_argument("--together", action="store_true", help="all hosts at the slot's beginning, not spread")
    parser.add_argument("--seed", metavar="N", type=seed, default=1, help="of the jobs (default: %(default)s)")
    add_json(parser)
    parser.set_defaults(run=run_negotiate)


def _add_scale(commands: Any) -> None:
    parser = commands.add_parser(
        "scale",
        help="what larger clusters need, from a measurement",
        description=(
            "Compute how many switch processes, cores and how much bandwidth a cluster needs, from what\n"
            "`paceline bench negotiate --switches N --json` measured (N of 3 or more)."
        ),
        epilog="example: paceline bench scale docs/results/negotiate-96.json --hosts 1000",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="JSON of paceline bench negotiate")
    parser.add_argument("--hosts", metavar="N", type=integer(1, 10_000_000), action="append", help="1000 and 10000")
    add_json(parser)
    parser.set_defaults(run=run_scale)


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


def run_negotiate(args: argparse.Namespace) -> int:
    from bench.micro.negotiate import Setup, measure
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance

    names = ("hosts", "switches", "slots", "flows", "policy", "across", "together", "seed")
    try:
        setup = Setup(**{name: getattr(args, name) for name in names})
    except ValueError as error:
        raise CommandError(str(error)) from None
    with progress_bar() as bar:
        task = bar.add_task(f"{args.hosts} hosts, {args.switches} switches", total=args.slots)
        result = measure(setup, lambda done, total: bar.update(task, completed=done))
    if args.json:
        print_json(result | provenance())
        return 0
    title = f"{args.hosts} hosts, {args.switches} switches, {args.slots} slots, {args.policy}"
    print_table(title, ("", ""), [(label, str(result[key])) for key, label in NEGOTIATE_ROWS.items()])
    return 0


NEGOTIATE_ROWS = {
    "p50_ms": "ask to decision, median ms",
    "p90_ms": "90th percentile",
    "p99_ms": "99th percentile",
    "echo_p50_ms": "a bare gRPC round trip, median ms",
    "echo_p90_ms": "90th percentile of it",
    "echo_p99_ms": "99th percentile of it",
    "undisturbed_p90_ms": "90th percentile while no core stalled",
    "undisturbed_p99_ms": "99th percentile while no core stalled",
    "machine_stalled_percent": "cores stalled by the machine, % of the time",
    "missed_slots": "missed slots",
    "missed_outside_stalls": "of these while no core stalled",
    "negotiations": "of negotiations",
    "switch_cpu_percent": "CPU of all switches, % of a core",
    "switch_cpu_us_per_negotiation": "a negotiation, µs of switches' CPU",
    "host_cpu_percent": "CPU of a host of the generator, %",
    "control_mbps": "control traffic, Mbit/s",
}


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

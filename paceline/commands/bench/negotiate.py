"""`paceline bench negotiate`: hosts and real switches over gRPC."""

import argparse
from typing import Any

from paceline.commands.arguments import CommandError, add_json, daemon_policy_name, integer, number, seed

ROWS = {
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


def add_parser(commands: Any) -> None:
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
    print_table(title, ("", ""), [(label, str(result[key])) for key, label in ROWS.items()])
    return 0

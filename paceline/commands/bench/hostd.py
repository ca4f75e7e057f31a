"""`paceline bench hostd`: what the daemon costs a host, and that nothing grows while jobs come and go."""

import argparse
from typing import Any

from paceline.commands.arguments import CommandError, add_json, integer

MODES = ("enforce", "advise", "observe")
BACKENDS = ("htb", "pacing")
JOBS = ("sockets", "real")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "hostd",
        help="what hostd costs a host with many active flows",
        description=(
            "Run hostd and switchd on a testbed of two hosts with as many ring jobs as flows are asked for, and\n"
            "measure hostd: CPU with its guardian and workers, memory, time per decision, slots without a decision.\n"
            "Jobs are of plain sockets, nearly all of them sending all the time, or real: torch over gloo, of ten\n"
            "kinds (FSDP, tensor parallelism, ...). With --soak, jobs come and go instead, and what hostd holds is\n"
            "counted."
        ),
        epilog="examples:\n  paceline bench hostd --flows 10 --slot-ms 20 --slots 1000\n"
        "  paceline bench hostd --jobs real\n"
        "  paceline bench hostd --soak 5",
    )
    parser.add_argument("--flows", metavar="N", type=integer(1, 100), default=10, help="default: %(default)s")
    parser.add_argument("--slot-ms", metavar="MS", type=integer(5, 1000), default=60, help="default: %(default)s")
    parser.add_argument("--slots", metavar="N", type=integer(10, 100_000), default=500, help="default: %(default)s")
    parser.add_argument("--mode", choices=MODES, default="enforce", help="default: %(default)s")
    parser.add_argument("--backend", choices=BACKENDS, default="htb", help="default: %(default)s")
    parser.add_argument("--jobs", choices=JOBS, default="sockets", help="default: %(default)s")
    parser.add_argument("--soak", metavar="MINUTES", type=float, help="jobs come and go for so long (such as 5)")
    add_json(parser)
    parser.set_defaults(run=run_hostd)


def run_hostd(args: argparse.Namespace) -> int:
    from bench.micro.hostd_cost import Setup, measure
    from bench.micro.hostd_soak import soak
    from bench.testbed.rootless import ensure_networks
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance

    if args.soak is not None and not 0 < args.soak <= 24 * 60:
        raise CommandError(f"--soak: found {args.soak:g}, expected minutes, more than 0 and up to a day")
    ensure_networks()
    setup = Setup(args.flows, float(args.slot_ms), args.slots, args.mode, args.backend, args.jobs)
    with progress_bar() as shown:
        task = shown.add_task("jobs come and go" if args.soak else "jobs join", total=None)

        def progress(done_s: float, all_s: float) -> None:
            shown.update(task, completed=done_s, total=all_s)

        found = soak(60 * args.soak, progress) if args.soak else measure(setup, progress)
    if args.json:
        print_json(found | provenance())
        return 0
    rows = [(key.replace("_", " "), str(value)) for key, value in found.items() if key != "samples"]
    print_table("hostd", ("", ""), rows)
    return 0

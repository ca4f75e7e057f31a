"""`paceline bench rate`: how exactly a backend of hostd holds flows to their rates."""

import argparse
import os
from contextlib import suppress
from typing import Any

from paceline.commands.arguments import add_json, integer, number

FLOWS = (1, 4, 16)
MOST_FLOWS = 64
WORST = ("median_error_percent", "p95_error_percent", "settle_ms_p95")
EXAMPLE = """examples: paceline bench rate --backend htb --flows 4
          paceline bench rate --backend pacing --flows 1 --link-gbps 5 --sockets 4

Needs root, or the right to make user namespaces; networks of its own, which end with it."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "rate",
        help="how exactly rates are held",
        description=(
            "Change the rates of flows between two network namespaces every 60 ms (400, 100, 800, 200, 600, 50,\n"
            "900, 300 Mbit/s; on faster links, as many times more) and judge by what arrives: the error of a slot,\n"
            "and when the new rate was reached."
        ),
        epilog=EXAMPLE,
    )
    parser.add_argument("--backend", choices=("htb", "pacing"), required=True, help="what holds the flows")
    parser.add_argument(
        "--flows", type=integer(1, MOST_FLOWS), metavar="N", help="how many (default: 1, 4 and 16 in turn)"
    )
    parser.add_argument("--link-gbps", type=number(0.1, 100.0), metavar="G", default=1.0, help="default: %(default)g")
    parser.add_argument("--sockets", type=integer(1, 16), metavar="N", default=1, help="of a flow (default: 1)")
    parser.add_argument(
        "--congestion-control", default="cubic", metavar="NAME", help="of the connections (default: cubic)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from bench.testbed.rootless import ensure_networks

    ensure_networks()
    from bench.micro.rate import Setup, measure_rate
    from paceline.commands.console import print_json, print_table
    from paceline.commands.provenance import provenance

    with suppress(PermissionError):
        os.nice(-15)  # the measurement is of the kernel, not of other load
    counts = (args.flows,) if args.flows else FLOWS
    runs = [
        measure_rate(
            args.backend,
            Setup(count, congestion_control=args.congestion_control, link_gbps=args.link_gbps, sockets=args.sockets),
        )
        for count in counts
    ]
    if args.json:
        worst = {key: max(one[key] for one in runs) for key in WORST}
        print_json({"backend": args.backend} | worst | {"runs": runs} | provenance())
        return 0
    counted = ("flows", "steps", "late_steps")
    rows = [(*(str(one[key]) for key in counted), *(f"{one[key]:.2f}" for key in WORST)) for one in runs]
    columns = ("flows", "steps", "late", "median error %", "p95 error %", "settled ms, p95")
    print_table(f"Rates held by {args.backend}", columns, rows)
    return 0

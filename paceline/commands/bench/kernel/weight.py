"""`paceline bench weight`: the part of a link that a socket of our congestion control gets beside one of cubic."""

import argparse
from dataclasses import asdict
from typing import Any

from paceline.commands.arguments import CommandError, add_json, integer

GBPS, WEIGHTS = (0.1, 0.5, 1.0, 5.0), (1.0, 2.0, 4.0, 8.0)
MOST_OFF = 0.06


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "weight",
        help="what a weighted socket gets of a link",
        description=(
            "Let a socket of weight w and one of cubic meet in a switch, and see which part of the link the first one\n"
            "gets: w/(w + 1), if it stands for w. Faster links need longer: windows are larger, and losses rare.\n"
            "A run says little, the median of several does: in every second one the socket of cubic begins."
        ),
        epilog="example: paceline bench weight --gbps 0.1,1 --weights 1,4 --repeat 3\n\n"
        "Needs root, libbpf, and a kernel that publishes its types.",
    )
    parser.add_argument("--gbps", metavar="A,B", type=_numbers, default=GBPS, help="of the link (default: 0.1,0.5,1,5)")
    parser.add_argument("--weights", metavar="A,B", type=_numbers, default=WEIGHTS, help="default: 1,2,4,8")
    parser.add_argument("--repeat", metavar="N", type=integer(1, 100), default=1, help="default: 1")
    parser.add_argument("--cubic", action="store_true", help="two sockets of cubic instead: what is chance")
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=integer(3, 3600),
        default=30,
        help="of a run (default: 30); the first third settles",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < one <= 100 for one in found):
        raise argparse.ArgumentTypeError(f"expected numbers above 0 and at most 100, such as 1,4: {text!r}")
    return found


def run(args: argparse.Namespace) -> int:
    from bench.micro.weight import measure
    from hostd.congestion.libbpf import BpfError
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance

    weights = (1.0,) if args.cubic else args.weights
    total = len(args.gbps) * len(weights) * args.repeat
    try:
        with progress_bar() as bar:
            task = bar.add_task("runs", total=total)
            found = measure(args.gbps, weights, args.repeat, args.seconds, lambda: bar.advance(task), cubic=args.cubic)
            shares = list(found)
    except BpfError as error:
        raise CommandError(f"the congestion control cannot be had: {error}") from None
    holds = all(abs(one.median - one.ideal) <= MOST_OFF for one in shares)
    if args.json:
        measured = [asdict(one) | {"median": one.median, "ideal": one.ideal} for one in shares]
        result = {"shares": measured, "cubic": args.cubic, "seconds": args.seconds}
        print_json(result | {"most_off": MOST_OFF, "holds": holds} | provenance())
        return 0
    rows = [
        (
            *(f"{one.gbps:g}", f"{one.carried_gbps:.3g}", f"{one.weight:g}"),
            *(f"{share:.2f}" for share in (min(one.shares), one.median, max(one.shares), one.ideal)),
        )
        for one in shares
    ]
    print_table("The weighted socket's part", ("Gbit/s", "carried", "weight", "least", "median", "most", "ideal"), rows)
    return 0

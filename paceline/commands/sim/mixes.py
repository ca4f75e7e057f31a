"""`paceline sim mixes`: many random mixes of jobs under several policies."""

import argparse
import os
from time import perf_counter
from typing import Any

from paceline.commands.arguments import DEFAULT_POLICIES, add_json, integer, number, policy_names, seed

LARGEST_DURATION_S = 1e6
MOST_MIXES = 1_000_000


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "mixes",
        help="many random mixes under several policies",
        description=(
            "Draw random mixes of 2 to 6 jobs and run every policy on each. fair is always among them: it\n"
            "is what jobs get without control. A ratio is the mean slowdown divided by the capacity bound.\n\n"
            "The array engine agrees with the reference to a few thousandths and is many times faster;\n"
            "policies that it cannot decide by itself run in the reference either way."
        ),
        epilog="example: paceline sim mixes --count 40 --seed 1 --policies mlcc,paceline",
    )
    parser.add_argument("--count", metavar="N", type=integer(1, MOST_MIXES), required=True, help="how many mixes")
    parser.add_argument("--seed", metavar="S", type=seed, default=1, help="of the series (default: %(default)s)")
    parser.add_argument("--kind", choices=("star", "tree"), default="star", help="topology (default: %(default)s)")
    parser.add_argument(
        "--policies",
        metavar="A,B",
        type=policy_names,
        default=DEFAULT_POLICIES,
        help="comma-separated (default: %(default)s)",
    )
    parser.add_argument(
        "--duration-s",
        metavar="S",
        type=number(1.0, LARGEST_DURATION_S),
        default=40.0,
        help="simulated seconds per run (default: %(default)s)",
    )
    parser.add_argument(
        "--cross-traffic", action="store_true", help="a flow of no job from every host, for one second in two"
    )
    parser.add_argument("--engine", choices=("array", "reference"), default="array", help="default: %(default)s")
    parser.add_argument(
        "--processes", metavar="N", type=integer(1, 1024), default=os.cpu_count(), help="default: one per CPU"
    )
    add_json(parser)
    parser.set_defaults(run=run_mixes)


def run_mixes(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim import compare

    policies = tuple(dict.fromkeys([compare.YARDSTICK, *args.policies]))
    series = compare.Series(args.seed, args.kind, args.duration_s, policies, args.engine == "array", args.cross_traffic)
    started_s = perf_counter()
    mixes = []
    with progress_bar() as bar:
        task = bar.add_task(f"{args.count} mixes", total=args.count)
        for mix in compare.run_mixes(series, args.count, args.processes):
            mixes.append(mix)
            bar.advance(task)
    wall_s = perf_counter() - started_s
    summaries = [compare.summarize(policy, mixes) for policy in policies]
    if args.json:
        document = {
            "count": args.count,
            "seed": args.seed,
            "kind": args.kind,
            "duration_s": args.duration_s,
            "engine": args.engine,
            "cross_traffic": args.cross_traffic,
            "policies": [asdict(summary) for summary in summaries],
            "mixes": [compare.mix_document(mix) for mix in mixes],
            "wall_s": wall_s,
            "cpu_s": round(sum(os.times()[:4]), 3),  # of this process and of those it waited for
        }
        print_json(document | provenance())
        return 0
    title = f"{args.count} mixes on a {args.kind}, seed {args.seed}, {args.duration_s:g} s each"
    columns = compare.COLUMNS + (compare.OTHERS_COLUMNS if args.cross_traffic else ())
    print_table(title, columns, [compare.row(summary) for summary in summaries])
    return 0

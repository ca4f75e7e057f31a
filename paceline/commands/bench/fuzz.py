"""`paceline bench fuzz`: mutants of what the daemons read."""

import argparse
from typing import Any

from paceline.commands.arguments import add_json, integer, seed

NAMES = ("wire", "segments", "control", "configuration", "plugin", "page")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "fuzz",
        help="mutants of what the daemons read",
        description=(
            "Hand mutants of good input to the code that reads it, and count how they were taken: messages (wire),\n"
            "the shim's files (segments), hostd's control socket (control), configurations and scenarios\n"
            "(configuration), NCCL's events (plugin), what hostd tells a job (page). Whatever is raised but a refusal\n"
            "is a failure, and so is memory that grows. A failure names its seed, which finds it again within 10,000\n"
            "mutants. Exit status 1 where something failed."
        ),
        epilog="example: paceline bench fuzz wire --count 1000000 --seed 1",
    )
    parser.add_argument("name", metavar="NAME", choices=NAMES, help=", ".join(NAMES))
    parser.add_argument("--count", metavar="N", type=integer(1, 10**10), default=10_000, help="default: %(default)s")
    parser.add_argument("--seed", metavar="S", type=seed, default=1, help="of the first 10,000 (default: %(default)s)")
    add_json(parser)
    parser.set_defaults(run=run_fuzz)


def run_fuzz(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from bench.fuzz.campaign import run
    from bench.fuzz.registry import TARGETS
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance

    with progress_bar() as bar:
        task = bar.add_task(f"{args.count} mutants", total=args.count)
        done = run(TARGETS[args.name], args.count, args.seed, lambda mutants: bar.update(task, completed=mutants))
    if args.json:
        document = {
            "name": args.name,
            "mutants": done.mutants,
            "seed": args.seed,
            "outcomes": dict(sorted(done.outcomes.items())),
            "failures": [asdict(failure) for failure in done.failures],
            "grew_bytes": done.grew_bytes,
            "wall_s": done.wall_s,
            "mutants_per_s": done.mutants / done.wall_s,
        }
        print_json(document | provenance())
    else:
        print_table(
            f"{args.name}, seed {args.seed}", ("", "mutants"), [(k, str(n)) for k, n in sorted(done.outcomes.items())]
        )
        for failure in done.failures:
            print(f"seed {failure.seed}, mutant {failure.number}: {failure.error}")
        print(
            f"{done.mutants} mutants, {done.mutants / done.wall_s:.0f} a second, memory {done.grew_bytes / 1e6:+.1f} MB"
        )
    return 0 if done.good else 1

"""`paceline sim agreement`: how far the two engines agree."""

import argparse
from pathlib import Path
from typing import Any

from paceline.commands.arguments import add_json, integer, policy_names

EVERY_POLICY = "fair,fair-penalty,mltcp,fifo,srpt,crux,mcs,ccml,mlcc,paceline"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "agreement",
        help="how far the engines agree",
        description=(
            "Run scenarios in the reference and in the array engine, and compare the mean JCT over jobs and\n"
            "seeds. Exits with 1 where they differ by more than 1 %."
        ),
        epilog="example: paceline sim agreement scenarios/mixed.toml scenarios/tree.toml --seeds 8",
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="scenario (TOML, version 1)")
    parser.add_argument(
        "--policies",
        metavar="A,B",
        type=policy_names,
        default=EVERY_POLICY,
        help="comma-separated (default: %(default)s)",
    )
    parser.add_argument("--seeds", metavar="N", type=integer(1, 10_000), default=8, help="default: %(default)s")
    parser.add_argument(
        "--iterations", metavar="N", type=integer(1, 10_000), default=6, help="of every job (default: %(default)s)"
    )
    add_json(parser)
    parser.set_defaults(run=run_agreement)


def run_agreement(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim.agreement.engines import AGREE, compared
    from paceline.sim.scenario_file import read_scenario

    scenarios = [read_scenario(path) for path in args.files]
    found = []
    with progress_bar() as bar:
        task = bar.add_task("both engines", total=len(scenarios) * len(args.policies))
        for scenario in scenarios:
            for policy in args.policies:
                found.append(compared(scenario, policy, range(1, args.seeds + 1), args.iterations))
                bar.advance(task)
    agree = all(one.holds for one in found)
    if args.json:
        runs = [asdict(one) | {"ratio": one.ratio, "holds": one.holds} for one in found]
        print_json({"agree": agree, "within": AGREE, "runs": runs} | provenance())
    else:
        title = f"mean JCT over {args.seeds} seeds, {args.iterations} iterations of every job"
        columns = ("scenario", "policy", "reference", "array", "ratio", "")
        rows = [
            (
                one.scenario,
                one.policy,
                f"{one.reference_jct_s:.3f} s",
                f"{one.array_jct_s:.3f} s",
                f"{one.ratio:.4f}",
                "" if one.holds else "differs",
            )
            for one in found
        ]
        print_table(title, columns, rows)
    return 0 if agree else 1

"""`paceline bench report`: one HTML page of the results of `paceline bench paper`."""

import argparse
from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError, add_json
from paceline.commands.bench.paper import RESULTS

REPORT = Path("out/report.html")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="one HTML page of all results",
        description=(
            "Write one HTML page from the results of `paceline bench paper`: figures, tables, the paper's numbers\n"
            "beside ours. It needs nothing else, and says what has not been measured."
        ),
        epilog="example: paceline bench report --results out/paper --out report.html",
    )
    parser.add_argument("--results", metavar="DIR", type=Path, default=RESULTS, help="(default: %(default)s)")
    parser.add_argument("--out", metavar="FILE", type=Path, default=REPORT, help="(default: %(default)s)")
    add_json(parser)
    parser.set_defaults(run=run_report)


def run_report(args: argparse.Namespace) -> int:
    from bench.experiments.registry import EXPERIMENTS
    from bench.report.page import page, read_results
    from paceline.commands.console import print_json

    if not args.results.is_dir():
        raise CommandError(
            f"{args.results}: no directory; `paceline bench paper` makes it (ours: --results docs/results/paper)"
        )
    documents = read_results(args.results)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(page(documents), encoding="utf-8")
    missing = [name for name in EXPERIMENTS if name not in documents]
    if args.json:
        print_json({"out": str(args.out), "experiments": list(documents), "missing": missing})
        return 0
    print(f"{args.out}: {len(documents)} experiments")
    if missing:
        print(f"not measured yet: paceline bench paper {' '.join(missing)} --out {args.results}")
    return 0

"""`paceline sim sweep`: policies × placements × seeds × loads over traces, one JSON line per run."""

import argparse
import os
from pathlib import Path
from typing import Any

from paceline.commands.arguments import add_json, integer
from paceline.commands.sim.sweep_results import stored_rows


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="policies × placements × seeds × loads over traces",
        description=(
            "Run everything a sweep file asks for and keep one JSON line per run. Interrupted and started again,\n"
            "it does what is missing. --engine ray uses the cluster that RAY_ADDRESS names, or this machine."
        ),
        epilog="example: paceline sim sweep workloads/mlcc/sweep.toml --engine local --results out/sweep.jsonl",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="sweep (TOML)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="default: local")
    parser.add_argument("--results", metavar="OUT.jsonl", type=Path, help="default: out/NAME.jsonl")
    parser.add_argument("--seeds", metavar="N", type=integer(1, 1000), help="1 to N, instead of the file's")
    parser.add_argument(
        "--processes", metavar="N", type=integer(1, 1024), default=os.cpu_count(), help="default: one per CPU"
    )
    add_json(parser)
    parser.set_defaults(run=run_sweep)


def run_sweep(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim.trace import sweep

    runs = sweep.read_sweep(args.file, tuple(range(1, args.seeds + 1)) if args.seeds else ())
    results = args.results or Path("out") / f"{args.file.stem}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    todo = sweep.missing(runs, stored_rows(results))
    rows = sweep.on_ray(todo) if args.engine == "ray" else sweep.local(todo, args.processes)
    origin = provenance()
    with progress_bar() as bar:
        task = bar.add_task(f"{len(runs)} runs", total=len(runs), completed=len(runs) - len(todo))
        for row in rows:
            sweep.append(results, row | origin)
            bar.advance(task)
    wanted = [sweep.identity(run) for run in runs]
    kept = [row for row in stored_rows(results) if row.get("run") in wanted]
    if args.json:
        print_json({"runs": kept, "results": str(results), "done_now": len(todo)} | origin)
        return 0
    columns = ("trace", "policy", "placement", "seed", "load", "mean JCT s", "wall s")
    lines = [
        (
            row["run"]["trace"]["file"],
            row["policy"],
            row["placement"],
            str(row["seed"]),
            f"{row['run']['load']:g}",
            _s(row["mean_jct_s"]),
            _s(row["wall_s"]),
        )
        for row in kept
    ]
    print_table(f"{args.file.name}: {len(kept)} of {len(runs)} runs", columns, lines)
    print(f"wrote {results}")
    return 0


def _s(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"

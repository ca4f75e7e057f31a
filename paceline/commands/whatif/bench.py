"""`paceline bench whatif`: whether what `paceline whatif` predicts in observe mode comes true under enforce."""

import argparse
import os
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.commands.arguments import add_json, integer, number, seed

SCENARIOS = tuple(Path("scenarios/testbed") / f"{name}.toml" for name in ("identical", "mix-2", "ps-and-ring"))


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "whatif",
        help="whether the gain that `paceline whatif` predicts comes true",
        description=(
            "Run each scenario's jobs with hostd in observe mode, ask it what Paceline would be worth, then run them\n"
            "under enforce, in turns, and compare. Needs root, or user namespaces."
        ),
        epilog="example: paceline bench whatif --repeat 3\n"
        "         paceline bench whatif scenarios/testbed/mix-2.toml --workload ddp",
    )
    parser.add_argument(
        "files", metavar="FILE", type=Path, nargs="*", default=list(SCENARIOS),
        help="scenarios (default: identical, mix-2 and ps-and-ring)",
    )  # fmt: skip
    parser.add_argument("--repeat", metavar="N", type=integer(1, 1000), default=1, help="runs of each kind")
    parser.add_argument(
        "--workload", metavar="KIND", default="synthetic", help="as of bench jobs (default: %(default)s)"
    )
    parser.add_argument("--duration", metavar="S", type=number(2.0, 3600.0), help="instead of the scenario's")
    parser.add_argument("--seed", metavar="N", type=seed, help="instead of the scenario's")
    parser.add_argument("--store", metavar="FILE", type=Path, help="keep runs there, and make none twice")
    add_json(parser)
    parser.set_defaults(run=run_whatif)


def run_whatif(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from bench.experiments.whatif import ENFORCE, OBSERVE, WITHIN_POINTS, compare
    from bench.jobs.control_names import control_named, require_kernel
    from bench.jobs.run_store import RunStore
    from bench.testbed.rootless import ensure_networks
    from bench.workload.choice import check_workload
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import commit, provenance
    from paceline.sim.scenario_file import read_scenario

    scenarios = [read_scenario(path) for path in args.files]
    if args.duration is not None:
        scenarios = [replace(scenario, duration_s=args.duration) for scenario in scenarios]
    for scenario in scenarios:
        check_workload(scenario.jobs, args.workload)
    ensure_networks()
    require_kernel([control_named(OBSERVE), control_named(ENFORCE)])
    store = RunStore(args.store, commit())
    load_before, started_s = os.getloadavg()[0], perf_counter()
    with progress_bar() as bar:
        task = bar.add_task("starting", total=1.0)

        def progress(doing: str, part: float) -> None:
            bar.update(task, description=doing, completed=part)

        found = compare(scenarios, args.workload, args.repeat, store, progress, args.seed)
    if args.json:
        print_json(
            {"scenarios": found, "workload": args.workload, "within_points": WITHIN_POINTS,
             "load_before": load_before, "wall_s": perf_counter() - started_s,
             "failed_runs": store.failures, "disturbed_runs": store.disturbances} | provenance()
        )  # fmt: skip
        return 0
    rows = [
        (one["scenario"], f"{one['slowdown_observe']:.3f}", f"{one['slowdown_enforce']:.3f}",
         f"{one['slowdown_enforce_predicted']:.3f}", f"{one['measured_gain_percent']:.1f}",
         f"{one['predicted_gain_percent']:.1f}", f"{one['difference_points']:+.1f}")
        for one in found
    ]  # fmt: skip
    columns = ("", "observe", "enforce", "predicted", "gain %", "predicted %", "points off")
    print_table(f"What whatif said, and what came; {args.repeat} repeats", columns, rows)
    print(f"The load of this machine before was {load_before:.1f}.")
    for failure in store.failures:
        print(f"made again: {failure}")
    for disturbance in store.disturbances:
        print(f"kept although disturbed: {disturbance}")
    return 0

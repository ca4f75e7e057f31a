"""`paceline sim testbed`: how far the simulator is from what was measured."""

import argparse
from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError, add_json, integer

MIXES = ("mix-1", "mix-2", "mix-3", "mix-4", "mix-5")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "testbed",
        help="how far the simulator is from measurements",
        description=(
            "Simulate scenarios that were measured on the testbed and compare the mean slowdown of their jobs.\n"
            "Exits with 1 where a policy differs by more than 2 %. TCP is compared with max-min sharing, which\n"
            "it is only about, and not judged."
        ),
        epilog="example: paceline sim testbed docs/results/paper/mixes.json",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="what `paceline bench paper mixes --json` wrote")
    parser.add_argument(
        "--scenario",
        metavar="A,B",
        type=lambda text: tuple(text.split(",")),
        default=MIXES,
        help=f"names, comma-separated (default: {','.join(MIXES)})",
    )
    parser.add_argument(
        "--scenarios",
        metavar="DIRECTORY",
        type=Path,
        default=Path("scenarios/testbed"),
        help="where their files lie (default: %(default)s)",
    )
    parser.add_argument("--seeds", metavar="N", type=integer(1, 10_000), default=1, help="default: %(default)s")
    add_json(parser)
    parser.set_defaults(run=run_testbed)


def run_testbed(args: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim.agreement.testbed import AGREE, NotMeasured, compared, controls_measured
    from paceline.sim.scenario_file import read_scenario

    try:
        document = json.loads(args.file.read_text(encoding="utf-8"))
        for name in args.scenario:  # before anything is simulated
            controls_measured(document, name)
    except ValueError as error:  # also where it is no JSON
        raise CommandError(f"{args.file}: {error}") from None
    scenarios = [read_scenario(args.scenarios / f"{name}.toml") for name in args.scenario]
    found = []
    with progress_bar() as bar:
        task = bar.add_task("simulated", total=len(scenarios))
        for scenario in scenarios:
            try:
                found += compared(document, scenario, range(1, args.seeds + 1))
            except NotMeasured as error:  # the scenario has another name than its file
                raise CommandError(f"{args.file}: {error}") from None
            bar.advance(task)
    agree = all(one.holds for one in found)
    if args.json:
        rows = [asdict(one) | {"ratio": one.ratio, "judged": one.judged, "holds": one.holds} for one in found]
        measured = {key: document.get(key) for key in ("commits", "machine")}
        print_json({"agree": agree, "within": AGREE, "measured": measured, "rows": rows} | provenance())
    else:
        columns = ("scenario", "testbed", "simulator", "measured", "simulated", "difference", "")
        table = [
            (
                one.scenario,
                one.control,
                one.policy,
                f"{one.measured:.3f}",
                f"{one.simulated:.3f}",
                f"{100 * (one.ratio - 1):+.1f} %",
                "" if one.holds else "differs",
            )
            for one in found
        ]
        print_table("mean slowdown", columns, table)
    return 0 if agree else 1

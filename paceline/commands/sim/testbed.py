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
            "it is only about, and not judged. Beside cross traffic it also prints what that gets of what it\n"
            "gets beside TCP, and the capacity bound on what it leaves of the links, and does not judge it."
        ),
        epilog="example: paceline sim testbed docs/results/paper/mixes.json",
    )
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="what `paceline bench paper mixes --json` or `bench jobs --json` wrote"
    )
    parser.add_argument(
        "--scenario",
        metavar="A,B",
        type=lambda text: tuple(text.split(",")),
        help=f"names, comma-separated (default: of bench jobs the one it ran, else {','.join(MIXES)})",
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
    from paceline.sim.agreement.testbed import (
        AGREE,
        LEFT_TO_OTHERS,
        YARDSTICK,
        NotMeasured,
        bound_left_to_others,
        compared,
        controls_measured,
        one_measured,
    )
    from paceline.sim.scenario_file import read_scenario

    try:
        document = json.loads(args.file.read_text(encoding="utf-8"))
        one = one_measured(document)
        names = args.scenario or (MIXES if one is None else (one,))
        for name in names:  # before anything is simulated
            controls_measured(document, name)
    except ValueError as error:  # also where it is no JSON
        raise CommandError(f"{args.file}: {error}") from None
    scenarios = [read_scenario(args.scenarios / f"{name}.toml") for name in names]
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
    left = {scenario.name: bound_left_to_others(document, scenario) for scenario in scenarios}
    bounds = {name: least for name, least in left.items() if least is not None}
    if args.json:
        rows = [asdict(one) | {"ratio": one.ratio, "judged": one.judged, "holds": one.holds} for one in found]
        measured = {key: document.get(key) for key in ("commits", "commit", "machine") if key in document}
        print_json(
            {"agree": agree, "within": AGREE, "measured": measured, "rows": rows, "bounds": bounds} | provenance()
        )
    else:
        columns: tuple[str, ...] = ("scenario", "testbed", "simulator", "measured", "simulated", "difference", "")
        beside_others = any(one.others_measured is not None for one in found)
        columns += ("others", "simulated", "bound") if beside_others else ()
        table = [
            (
                one.scenario,
                one.control,
                one.policy,
                f"{one.measured:.3f}",
                f"{one.simulated:.3f}",
                f"{100 * (one.ratio - 1):+.1f} %",
                "" if one.holds else "differs",
                *("" if part is None else f"{part:.2f}" for part in (*one.others, one.bound) if beside_others),
            )
            for one in found
        ]
        print_table("mean slowdown", columns, table)
        for name, least in bounds.items():
            kept = f"{LEFT_TO_OTHERS:.0%} of what they have beside {YARDSTICK}"
            print(f"{name}: no policy that leaves others {kept} has a mean slowdown below {least:.3f}")
    return 0 if agree else 1

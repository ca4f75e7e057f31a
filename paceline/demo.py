"""`paceline demo`: two jobs on one link, without control and with it, and a picture of the difference."""

import argparse
from importlib.resources import files
from pathlib import Path
from typing import Any

from paceline.arguments import CommandError, add_json

CONTROLS = ("fair", "paceline")
DEFAULT_FIGURE = Path("out/demo.png")
SHARED_LINK = "h0->sw"
WINDOW_S = (4.0, 7.5)  # after the warm-up, a handful of iterations
CAPTIONS = {
    "fair": "Without control (fair sharing, TCP's ideal): bursts collide",
    "paceline": "With paceline: bursts take turns",
}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="two jobs on one link, with and without control",
        description="Simulate two jobs that share one link, without control and with it, and draw the link.",
        epilog="example: paceline demo --figure demo.png",
    )
    parser.add_argument(
        "--figure",
        metavar="OUT.png",
        type=Path,
        default=DEFAULT_FIGURE,
        help="picture (default: %(default)s)",
    )
    add_json(parser)
    parser.set_defaults(run=run_demo)


def run_demo(args: argparse.Namespace) -> int:
    from flowcore.scenario import parse_scenario
    from paceline.console import print_json, print_table
    from paceline.provenance import provenance
    from sim.engine import Recording
    from sim.figure import FigureError, Panel, draw_panels, require_figures
    from sim.run import alone_iterations_s, run

    if args.figure == DEFAULT_FIGURE:
        DEFAULT_FIGURE.parent.mkdir(exist_ok=True)
    try:
        require_figures(args.figure)
    except FigureError as error:
        raise CommandError(str(error)) from None
    text = files("paceline").joinpath("demo.toml").read_text(encoding="utf-8")
    scenario = parse_scenario(text, "demo.toml")
    alone_s = alone_iterations_s(scenario, scenario.seed)
    recordings = {control: Recording() for control in CONTROLS}
    results = {
        control: run(scenario, control, alone_s=alone_s, recording=recording)
        for control, recording in recordings.items()
    }
    panels = [
        Panel(f"{CAPTIONS[control]}, {mean_s(results[control]):.2f} s per iteration", SHARED_LINK, recording)
        for control, recording in recordings.items()
    ]
    draw_panels(panels, scenario, args.figure, WINDOW_S, "Two training jobs on one link")

    if args.json:
        controls = [
            {
                "control": control,
                "mean_iteration_s": mean_s(result),
                "mean_slowdown": result.mean_slowdown,
                "ratio_to_bound": result.ratio_to_bound,
            }
            for control, result in results.items()
        ]
        document = {"controls": controls, "figure": str(args.figure), "simulated": True}
        print_json(document | provenance())
        return 0
    columns = ("control", "iteration s", "slowdown", "ratio to bound")
    rows = [
        (control, f"{mean_s(result):.3f}", f"{result.mean_slowdown:.3f}", f"{result.ratio_to_bound:.3f}")
        for control, result in results.items()
    ]
    print_table("Two jobs on one 1 Gbit/s link, each computing and sending half of the time", columns, rows)
    print(f"This was the simulator. The link over time: {args.figure}")
    return 0


def mean_s(result: Any) -> float:
    """Mean iteration time over the jobs."""
    return float(sum(job.mean_iteration_s for job in result.jobs) / len(result.jobs))

"""`paceline demo`: two jobs on one link, under TCP and under Paceline, for real, and a picture of the difference."""

import argparse
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands import testbed
from paceline.commands.arguments import CommandError, add_json

if TYPE_CHECKING:
    from bench.jobs.control import Control
    from paceline.flowcore.model.scenario import Scenario

CONTROLS = ("reno", "cubic", "bbr", "paceline")
DEFAULT_FIGURE = Path("out/demo.png")
RECORDED_HOST = "h0"
SHARED_LINK = "h0->sw"
SHOWN_S = 8.0


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="two jobs on one link, with and without control",
        description=(
            "Run two jobs that share one link, on two hosts made of network namespaces: under each TCP congestion\n"
            "control, then with the daemons. Needs no root and takes about a minute. With --simulate, and where\n"
            "Paceline was installed without the testbed, the simulator runs the same jobs, in seconds and anywhere."
        ),
        epilog="example: paceline demo --figure demo.png",
    )
    parser.add_argument(
        "--figure", metavar="OUT.png", type=Path, default=DEFAULT_FIGURE, help="picture (default: %(default)s)"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--torch", action="store_true", help="real DDP jobs over gloo (needs torch)")
    how.add_argument("--simulate", action="store_true", help="simulate instead; takes seconds")
    add_json(parser)
    parser.set_defaults(run=run_demo)


def run_demo(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table
    from paceline.commands.provenance import provenance
    from paceline.flowcore.model.scenario import parse_scenario
    from paceline.sim.report.figure import FigureError, require_figures

    if args.figure == DEFAULT_FIGURE:
        DEFAULT_FIGURE.parent.mkdir(exist_ok=True)
    try:
        require_figures(args.figure)
    except FigureError as error:
        raise CommandError(str(error)) from None
    text = files("paceline.commands").joinpath("demo.toml").read_text(encoding="utf-8")
    scenario = parse_scenario(text, "demo.toml")
    rows = None if args.simulate else real_where_possible(scenario, args.figure, args.torch)
    in_simulator = rows is None
    if rows is None:
        rows = simulated(scenario, args.figure)
    if args.json:
        print_json({"controls": rows, "figure": str(args.figure), "simulated": in_simulator} | provenance())
        return 0
    columns = ("control", "iteration s", "slowdown", "ratio to bound")
    shown = [
        (row["control"], *(f"{row[key]:.3f}" for key in ("mean_iteration_s", "mean_slowdown", "ratio_to_bound")))
        for row in rows
    ]
    print_table("Two jobs on one 1 Gbit/s link, each computing and sending half of the time", columns, shown)
    how = "This was the simulator." if in_simulator else "All bytes crossed the emulated network."
    print(f"{how} The link over time: {args.figure}")
    return 0


def real_where_possible(scenario: "Scenario", figure: Path, torch: bool) -> list[dict[str, Any]] | None:
    """None where there is no testbed, unless torch was asked for: the simulator has no torch."""
    try:
        return real(scenario, figure, torch)
    except ModuleNotFoundError as error:
        if torch or not testbed.is_missing(error):
            raise
    print("paceline: the testbed is part of a checkout only; simulating instead", file=sys.stderr)
    return None


def real(scenario: "Scenario", figure: Path, torch: bool) -> list[dict[str, Any]]:
    from bench.jobs.cases import Case, make_runs
    from bench.jobs.control_names import control_named
    from bench.jobs.link_recorder import RecordedControl
    from bench.jobs.report import document
    from bench.jobs.run import Conditions
    from bench.jobs.run_store import RunStore
    from bench.testbed.rootless import ensure_networks
    from bench.workload.choice import check_workload
    from paceline.commands.bench.jobs import usable
    from paceline.commands.console import progress_bar
    from paceline.sim.report.figure import Panel, draw_panels

    workload = "ddp" if torch else "synthetic"
    check_workload(scenario.jobs, workload)
    ensure_networks()
    names = tuple(control.name for control in usable([control_named(name) for name in CONTROLS]))
    recorded: dict[str, RecordedControl] = {}

    def observer(control: "Control") -> RecordedControl:
        """Of a run that is made again, the last is shown."""
        recorded[control.name] = RecordedControl(control, RECORDED_HOST)
        return recorded[control.name]

    case = Case(scenario.name, scenario, names, Conditions(workload, scenario.seed), observer=observer)
    with progress_bar() as bar:
        task = bar.add_task("starting", total=1.0)

        def progress(doing: str, part: float) -> None:
            bar.update(task, description=doing, completed=part)

        measured = make_runs([case], 1, RunStore(), progress)[case.name].measurement()
    rows = [
        {
            "control": control["control"],
            "mean_iteration_s": sum(job["mean_iteration_s"] for job in control["jobs"]) / len(control["jobs"]),
            "mean_slowdown": control["mean_slowdown"],
            "ratio_to_bound": control["ratio_to_bound"],
        }
        for control in document(measured, 0.0)["controls"]  # type: ignore[attr-defined]
    ]
    panels = [
        Panel(
            f"{row['control']}: {row['mean_iteration_s']:.2f} s per iteration",
            SHARED_LINK,
            recorded[row["control"]].recording,
        )
        for row in rows
    ]
    draw_panels(panels, scenario, figure, (0.0, SHOWN_S), "Two training jobs on one link")
    return rows


def simulated(scenario: "Scenario", figure: Path) -> list[dict[str, Any]]:
    from paceline.sim.recording import Recording
    from paceline.sim.report.figure import Panel, draw_panels
    from paceline.sim.run import alone_iterations_s, run

    alone_s = alone_iterations_s(scenario, scenario.seed)
    rows, panels = [], []
    for control in ("fair", "paceline"):
        recording = Recording()
        result = run(scenario, control, alone_s=alone_s, recording=recording)
        mean_s = sum(job.mean_iteration_s for job in result.jobs) / len(result.jobs)
        caption = "without control (fair sharing, TCP's ideal)" if control == "fair" else "with paceline"
        panels.append(Panel(f"{caption}: {mean_s:.2f} s per iteration", SHARED_LINK, recording))
        rows.append(
            {
                "control": control,
                "mean_iteration_s": mean_s,
                "mean_slowdown": result.mean_slowdown,
                "ratio_to_bound": result.ratio_to_bound,
            }
        )
    draw_panels(panels, scenario, figure, (0.0, SHOWN_S), "Two training jobs on one link (simulated)")
    return rows

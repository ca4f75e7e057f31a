"""`paceline sim run`: one scenario under one policy."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import (
    DEFAULT_POLICIES,
    CommandError,
    add_json,
    gated_policy_name,
    number,
    seed,
)

if TYPE_CHECKING:
    from paceline.flowcore.model.scenario import Scenario
    from paceline.sim.reference.engine import JournalSink
    from paceline.sim.run import RunResult

LARGEST_LATENCY_MS = 10_000.0

# A picture shows this many iterations of the slowest job: enough to see a rhythm, few enough to see a burst.
FIGURE_ITERATIONS = 5


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="one scenario under one policy",
        description=(
            "Simulate a scenario and compare each job with itself alone on the same network.\n\n"
            "A job still running when the scenario's duration is over has jct_s null and finished false; in\n"
            "mean_jct_s and p99_jct_s it counts with the time since its start, a lower bound. The same seed\n"
            "gives the same JSON but for decision_us and wall_s."
        ),
        epilog="example: paceline sim run scenarios/mixed.toml --policy paceline --seed 7 --figure links.png",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="scenario (TOML, version 1)")
    parser.add_argument(
        "--policy",
        metavar="P",
        type=gated_policy_name,
        required=True,
        help=f"such as {DEFAULT_POLICIES}, or what holds jobs back, with one of them or fair: cassini, paceline+srsf1",
    )
    parser.add_argument("--seed", metavar="N", type=seed, help="instead of the scenario's")
    parser.add_argument(
        "--latency-ms",
        metavar="MS",
        type=number(0.0, LARGEST_LATENCY_MS),
        default=2.0,
        help="one-way delay of control messages (default: %(default)s)",
    )
    parser.add_argument("--agents", action="store_true", help="hold jobs back as the daemons do: cassini, srsf1")
    parser.add_argument("--local", action="store_true", help="hosts without switches, each knowing only its NIC")
    parser.add_argument("--figure", metavar="OUT.png", type=Path, help="draw the busiest links over time")
    parser.add_argument("--journal", metavar="FILE", type=Path, help="write every event and effect, one JSON line each")
    add_json(parser)
    parser.set_defaults(run=run_scenario)


def run_scenario(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.flowcore.policy import HOLDING
    from paceline.sim.policy_names import parts
    from paceline.sim.recording import Recording
    from paceline.sim.report import scenario_report as report
    from paceline.sim.report.figure import FigureError, draw_links, require_figures
    from paceline.sim.run import PolicyError, alone_iterations_s, check_policy, run
    from paceline.sim.scenario_file import read_scenario

    if args.agents and args.policy not in HOLDING:
        raise CommandError(f"--agents: found policy {args.policy}, expected one of {', '.join(HOLDING)}")
    holds_jobs = parts(args.policy)[1] is not None and not args.agents
    if holds_jobs and (args.figure or args.journal or args.local):
        raise CommandError(f"--figure, --journal and --local need a flow policy alone; {args.policy} holds jobs back")
    scenario = read_scenario(args.file)
    try:
        if holds_jobs:
            check_policy(scenario, args.policy)
    except PolicyError as error:
        raise CommandError(str(error)) from None
    recording = None
    if args.figure:
        try:
            require_figures(args.figure)
        except FigureError as error:
            raise CommandError(str(error)) from None
        recording = Recording()
    started_s = perf_counter()
    with progress_bar() as bar, _journal(args.journal) as journal:
        task = bar.add_task("each job alone", total=None)
        alone_s = alone_iterations_s(scenario, scenario.seed if args.seed is None else args.seed)
        # Without a duration the total is unknown: the bar only moves.
        bar.update(task, description=f"under {args.policy}", total=scenario.duration_s)
        result = run(
            scenario,
            args.policy,
            args.seed,
            alone_s=alone_s,
            latency_ms=args.latency_ms,
            local=args.local,
            recording=recording,
            journal=journal,
            agents=args.agents,
            ticker=lambda simulated_s: bar.update(task, completed=simulated_s),
        )
    wall_s = perf_counter() - started_s
    if recording is not None:
        title = f"{scenario.name} under {args.policy}"
        draw_links(recording, scenario, args.figure, window_s=figure_window_s(result, scenario), title=title)
    if args.json:
        print_json(report.document(result, scenario, wall_s) | provenance())
        return 0
    title = f"{scenario.name} under {result.policy}, seed {result.seed}"
    print_table(title, report.COLUMNS, report.rows(result))
    print(report.summary(result))
    for path in filter(None, (args.figure, args.journal)):
        print(f"wrote {path}")
    return 0


def figure_window_s(result: "RunResult", scenario: "Scenario") -> tuple[float, float]:
    """A few iterations once every job has started and warmed up; of a shorter run, its end."""
    from paceline.sim.run import WARM_UP_ITERATIONS

    slowest_s = max(job.mean_iteration_s for job in result.jobs)
    length_s = min(FIGURE_ITERATIONS * slowest_s, result.simulated_s)
    warm_s = max(spec.start_s for spec in scenario.jobs) + WARM_UP_ITERATIONS * slowest_s
    start_s = max(0.0, min(warm_s, result.simulated_s - length_s))
    return start_s, start_s + length_s


@contextmanager
def _journal(path: Path | None) -> "Iterator[JournalSink | None]":
    if path is None:
        yield None
        return
    from paceline.flowcore.messages.journal import Entry, encode

    with path.open("w", encoding="utf-8") as file:
        yield lambda now_ns, actor, event, effects: print(
            encode(Entry(now_ns, actor, event, tuple(effects))), file=file
        )

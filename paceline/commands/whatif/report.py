"""`paceline report`: how jobs did before they were paced and since, from the history that hostd keeps."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json
from paceline.commands.whatif.durations import duration_s

if TYPE_CHECKING:
    from hostd.history.line import Minute

STATE_DIRECTORY = Path("/var/lib/paceline/hostd")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "report",
        help="how jobs did before they were paced, and since",
        description=(
            "Compare each job's iterations while hostd only watched it with those since it was paced, from the\n"
            "history that hostd keeps: a line per job and minute."
        ),
        epilog="example: paceline report --since 7d",
    )
    parser.add_argument("--since", metavar="TIME", type=duration_s, help="90s, 15m, 12h, 7d, … (default: all there is)")
    parser.add_argument(
        "--state-directory", metavar="DIR", type=Path, action="append",
        help=f"of a hostd; may be given several times (default: {STATE_DIRECTORY})",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=run_report)


def run_report(args: argparse.Namespace) -> int:
    from hostd.history.history import read_history
    from paceline.commands.console import print_json, print_table
    from paceline.commands.provenance import provenance
    from paceline.flowcore.model.fields import printable

    directories = args.state_directory or [STATE_DIRECTORY]
    try:
        jobs = compared(list(read_history(directories, args.since)))
    except FileNotFoundError as error:
        raise CommandError(f"{error.filename}: no history; does hostd have a state directory?") from None
    if args.json:
        print_json({"jobs": jobs, "since_s": args.since} | provenance())
        return 0
    if not jobs:
        print("no iterations in that time")
        return 0
    rows = [
        (printable(job["name"]), *_shown(job["before"]), *_shown(job["after"]), _percent(job["change_percent"]))
        for job in jobs
    ]
    columns = ("job", "hours", "before ms", "slowdown", "hours", "paced ms", "slowdown", "change %")
    print_table("Iterations before pacing and since", columns, rows)
    return 0


def compared(minutes: "Sequence[Minute]") -> list[dict[str, Any]]:
    """By job, weighted by iterations."""
    from paceline.flowcore.model.job_names import readable

    found = []
    for job, name in sorted(readable({minute.job for minute in minutes}).items()):
        own = [minute for minute in minutes if minute.job == job and minute.iterations > 0]
        before = _summary(minute for minute in own if not minute.paced)
        after = _summary(minute for minute in own if minute.paced)
        change = 100 * (after["iteration_ms"] / before["iteration_ms"] - 1) if before and after else None
        found.append({"name": name, "before": before, "after": after, "change_percent": change})
    return found


def _summary(minutes: "Iterable[Minute]") -> dict[str, Any] | None:
    them = list(minutes)
    iterations = sum(minute.iterations for minute in them)
    if not iterations:
        return None
    return {
        "modes": sorted({minute.mode for minute in them}),
        "minutes": len(them),
        "iterations": iterations,
        "iteration_ms": sum(minute.iterations * minute.iteration_ms for minute in them) / iterations,
        "slowdown": sum(minute.iterations * minute.slowdown for minute in them) / iterations,
    }


def _shown(part: dict[str, Any] | None) -> tuple[str, str, str]:
    if part is None:
        return "–", "–", "–"
    return f"{part['minutes'] / 60:.1f}", f"{part['iteration_ms']:.0f}", f"{part['slowdown']:.2f}"


def _percent(change: float | None) -> str:
    return "–" if change is None else f"{change:+.1f}"

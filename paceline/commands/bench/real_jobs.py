"""`paceline bench real-jobs`: realistic training jobs, two at a time and alone, under several controls."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json, integer, number, seed

if TYPE_CHECKING:
    from bench.experiments.acceptance.real_job_cases import Job, Pair

RESULTS, QUICK_RESULTS = Path("out/real-jobs"), Path("out/real-jobs-quick")
CONTROLS = "reno,cubic,bbr,paceline"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "real-jobs",
        help="realistic training jobs, two at a time and alone",
        description=(
            "Run pairs of realistic training jobs (torch over gloo) under each control, on the same hosts (same) and\n"
            "where they meet on one link only (cross), and each job alone with and without Paceline. Says what each\n"
            "case must show and whether it does, and names the jobs that Paceline does not help. Writes\n"
            "DIR/real-jobs.json; runs that are in DIR already are not made again. All cases take about an hour for\n"
            "each repeat, on a quiet machine."
        ),
        epilog="examples: paceline bench real-jobs --list\n"
        "          paceline bench real-jobs --case fsdp+plain,all-to-all+plain-cross --repeat 3\n"
        "          paceline bench real-jobs --case alone --duration 30",
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument(
        "--case", metavar="A,B", help="pairs, with or without a placement; same, cross, alone (default: all)"
    )
    parser.add_argument(
        "--repeat", metavar="N", type=integer(1, 1000), help="runs of a kind (default: 3, with --quick 1)"
    )
    parser.add_argument(
        "--control", metavar="A,B", default=CONTROLS, help="paceline, a TCP or more, others (default: %(default)s)"
    )
    parser.add_argument("--duration", metavar="S", type=number(2.0, 3600.0), help="seconds of a run (default: 20)")
    parser.add_argument("--quick", action="store_true", help="two cases, seconds each: to see that it works")
    parser.add_argument("--seed", metavar="N", type=seed, default=1, help="of the computing times that are drawn")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help=f"for results (default: {RESULTS}, with --quick {QUICK_RESULTS})"
    )
    parser.add_argument("--force", action="store_true", help="measure again what has been measured")
    add_json(parser)
    parser.set_defaults(run=run_real_jobs)


def run_real_jobs(args: argparse.Namespace) -> int:
    from bench.experiments.acceptance.real_job_cases import chosen_alone, chosen_pairs
    from bench.experiments.acceptance.real_jobs import EXPERIMENT
    from bench.experiments.experiment import Options
    from bench.jobs.control_names import control_named, require_kernel
    from bench.jobs.tcp_control import ALONE_CONTROL
    from bench.testbed.rootless import ensure_networks
    from paceline.commands.bench.paper import measure, print_document
    from paceline.commands.console import print_json

    cases = tuple(dict.fromkeys(part.strip() for part in args.case.split(","))) if args.case else ()
    pairs, alone = chosen_pairs(cases), chosen_alone(cases)
    if args.list:
        return _list(pairs, alone, args.json)
    controls = _controls(args.control)
    ensure_networks()
    require_kernel(control_named(name) for name in dict.fromkeys((*controls, ALONE_CONTROL)))
    directory = args.out or (QUICK_RESULTS if args.quick else RESULTS)
    directory.mkdir(parents=True, exist_ok=True)
    repeats = args.repeat or (1 if args.quick else EXPERIMENT.repeats) or 1
    options = Options(args.quick, repeats, args.seed, controls, cases, args.duration)
    document = measure(EXPERIMENT, directory, options, args.force, EXPERIMENT.name)
    if args.json:
        print_json(document)
        return 0
    print_document(EXPERIMENT, document)
    print(f"result: {directory / EXPERIMENT.name}.json; slowdowns are medians of {repeats}, against each job alone")
    return 0


def _controls(text: str) -> tuple[str, ...]:
    from bench.jobs.control_names import control_named
    from bench.jobs.tcp_control import TCP

    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        control_named(name)
    if "paceline" not in names or not {*names} & {*TCP}:
        raise CommandError(f"--control {text}: expected paceline and at least one of {', '.join(TCP)}")
    return names


def _list(pairs: "Sequence[Pair]", alone: "Sequence[Job]", as_json: bool) -> int:
    from paceline.commands.console import print_json, print_table

    if as_json:
        cases = [{"case": pair.name, "workload": pair.workload, "limit_percent": pair.limit_percent} for pair in pairs]
        print_json({"cases": cases, "alone": [job.name for job in alone]})
        return 0
    rows = {
        pair.kinds: (pair.kinds, *(f"{job.workload} {job.model_mb:g} MB {job.compute_s:g} s" for job in pair.jobs),
                     f"{pair.limit_percent:+g} %")
        for pair in pairs
    }  # fmt: skip
    print_table("Pairs, each -same and -cross", ("", "first job", "second job", "limit"), list(rows.values()))
    if alone:
        print(f"alone: {', '.join(job.name for job in alone)}")
    return 0

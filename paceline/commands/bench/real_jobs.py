"""`paceline bench real-jobs`: realistic training jobs, two at a time and alone, under several controls."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json, integer, number, seed

if TYPE_CHECKING:
    from bench.experiments.acceptance.job_suite import Job, Pair
    from bench.jobs.cases import Share

RESULTS, GPU_RESULTS = Path("out/real-jobs"), Path("out/gpu-jobs")
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
            "each repeat, on a quiet machine.\n\n"
            "With --gpu: jobs over NCCL on one GPU at 1, 5 and 10 Gbit/s, computing as pauses of the host or of\n"
            "the GPU's stream, and ResNet-50 and GPT-2 small (DDP, FSDP); DIR/gpu-jobs.json."
        ),
        epilog="examples: paceline bench real-jobs --list\n"
        "          paceline bench real-jobs --case fsdp+plain,all-to-all+plain-cross --repeat 3\n"
        "          paceline bench real-jobs --case alone --duration 30\n"
        "          paceline bench real-jobs --gpu --case identical,unlike",
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--gpu", action="store_true", help="the jobs over NCCL, which need a GPU")
    parser.add_argument("--case", metavar="A,B", help="pairs, groups of them; same, cross, alone (default: all)")
    parser.add_argument(
        "--repeat", metavar="N", type=integer(1, 1000), help="runs of a kind (default: 3, with --quick 1)"
    )
    parser.add_argument(
        "--control", metavar="A,B", default=CONTROLS, help="paceline, a TCP or more, others (default: %(default)s)"
    )
    parser.add_argument(
        "--duration", metavar="S", type=number(2.0, 3600.0), help="seconds of a run (default: 20; GPU: 10)"
    )
    parser.add_argument("--quick", action="store_true", help="two cases, seconds each: to see that it works")
    parser.add_argument("--seed", metavar="N", type=seed, default=1, help="of the computing times that are drawn")
    parser.add_argument(
        "--parallel", metavar="N", type=integer(1, 16), default=1,
        help="so many runs at 1 Gbit/s at the same time, where the machine has the cores; not with MPS",
    )  # fmt: skip
    parser.add_argument("--share", help=argparse.SUPPRESS)  # K/N: of a process that --parallel has started
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help=f"for results (default: {RESULTS} or {GPU_RESULTS}; --quick: …-quick)"
    )
    parser.add_argument("--force", action="store_true", help="measure again what has been measured")
    add_json(parser)
    parser.set_defaults(run=run_real_jobs)


def run_real_jobs(args: argparse.Namespace) -> int:
    from bench.experiments.acceptance import gpu_job_cases, gpu_jobs, real_job_cases, real_jobs
    from bench.experiments.experiment import Options
    from bench.jobs.cases import ShareMade
    from bench.jobs.control_names import control_named, require_kernel
    from bench.jobs.tcp_control import ALONE_CONTROL
    from bench.testbed.accelerator import has_gpu, kernels_side_by_side
    from bench.testbed.rootless import ensure_networks
    from paceline.commands.bench.paper import measure, print_document
    from paceline.commands.console import print_json

    suite = gpu_job_cases.SUITE if args.gpu else real_job_cases.SUITE
    experiment = gpu_jobs.EXPERIMENT if args.gpu else real_jobs.EXPERIMENT
    cases = tuple(dict.fromkeys(part.strip() for part in args.case.split(","))) if args.case else ()
    pairs, alone = suite.chosen_pairs(cases), suite.chosen_alone(cases)
    if args.list:
        return _list(pairs, alone, args.json)
    controls = _controls(args.control)
    ensure_networks()
    require_kernel(control_named(name) for name in dict.fromkeys((*controls, ALONE_CONTROL)))
    if args.gpu and not args.quick and not has_gpu():
        raise CommandError("--gpu: torch finds no GPU with NCCL here; --quick shows the suite without one")
    directory = args.out or _directory(args)
    directory.mkdir(parents=True, exist_ok=True)
    repeats = args.repeat or (1 if args.quick else experiment.repeats) or 1
    options = Options(args.quick, repeats, args.seed, controls, cases, args.duration, share=_share(args.share))
    with kernels_side_by_side() if args.gpu else nullcontext(False) as has_mps:
        if args.parallel > 1 and not args.share and not has_mps:  # the end of one run would hold the others up there
            if args.force:
                (directory / f"{experiment.name}.runs.jsonl").unlink(missing_ok=True)
                args.force = False
            _make_side_by_side(args, directory)
        try:
            document = measure(experiment, directory, options, args.force, experiment.name)
        except ShareMade:
            return 0
    if args.json:
        print_json(document)
        return 0
    print_document(experiment, document)
    print(f"result: {directory / experiment.name}.json; slowdowns are medians of {repeats}, against each job alone")
    return 0


def _directory(args: argparse.Namespace) -> Path:
    results = GPU_RESULTS if args.gpu else RESULTS
    return results.with_name(f"{results.name}-quick") if args.quick else results


def _make_side_by_side(args: argparse.Namespace, directory: Path) -> None:
    """The runs that may be made at the same time, each by one of so many processes, into the file of runs."""
    from bench.child_process import start_child

    values = {name: getattr(args, name) for name in ("case", "repeat", "control", "duration", "seed")}
    flags = [f"--{name}" for name in ("gpu", "quick") if getattr(args, name)]
    options = [f"--{name}={value}" for name, value in values.items() if value is not None]
    command = [sys.executable, "-m", "paceline", "bench", "real-jobs", *flags, *options, f"--out={directory}"]
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                start_child(
                    [*command, f"--share={number}/{args.parallel}"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                )
            )
            for number in range(args.parallel)
        ]  # fmt: skip
        said = [process.communicate()[1] for process in started]
    for process, errors in zip(started, said, strict=True):
        if process.returncode:
            last = (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            raise CommandError(f"--parallel: a process that makes runs failed: {last}")


def _share(text: str | None) -> "Share | None":
    from bench.jobs.cases import Share

    if text is None:
        return None
    number, of = text.split("/")
    return Share(int(number), int(of))


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
        cases = [
            {"case": pair.name, "workload": pair.workload, "limit_percent": pair.limit_percent,
             "limit_slowdown": pair.limit_slowdown}
            for pair in pairs
        ]  # fmt: skip
        print_json({"cases": cases, "alone": [job.name for job in alone]})
        return 0
    rows = [
        (pair.name, *(f"{job.workload} {job.model_mb:g} MB {job.compute_s:g} s" for job in pair.jobs), pair.limit)
        for pair in pairs
    ]
    print_table("Pairs", ("", "first job", "second job", "limit"), rows)
    if alone:
        print(f"alone: {', '.join(job.name for job in alone)}")
    return 0

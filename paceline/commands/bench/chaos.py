"""`paceline bench chaos`: faults while real daemons and real jobs run."""

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.commands.arguments import add_json, integer, number, seed

DURATION_S = 600.0
MOST_S = 7 * 24 * 3600.0


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "chaos",
        help="faults while real daemons and real jobs run",
        description=(
            "Run three jobs on three hosts made of network namespaces, with hostd and switchd as systemd would run\n"
            "them, and let faults happen one after the other: daemons, their children and jobs are killed or stand\n"
            "still, an operator changes queueing, addresses, links and files. For each fault: which iterations were\n"
            "slow, how long nothing was paced, how soon all was as before. Exit status 1 where a promise was broken.\n"
            "Needs root, or user namespaces. docs/testbed.md has the kinds of faults and the promises.\n\n"
            "With --held N: under the backend gate hostd is stopped and killed N times while a burst is held; each\n"
            "must go within 10 slots, and no job may fail."
        ),
        epilog="examples:\n  paceline bench chaos\n"
        "  paceline bench chaos --duration 60 --seed 7 --kinds kill-hostd,link\n"
        "  paceline bench chaos --held 50 --workload ddp",
    )
    parser.add_argument(
        "--duration", metavar="S", type=number(1.0, MOST_S), default=DURATION_S, help="of the faults (default: 600)"
    )
    parser.add_argument("--seed", metavar="N", type=seed, default=1, help="of the faults (default: %(default)s)")
    parser.add_argument("--kinds", metavar="A,B", help="kinds of faults (default: all)")
    parser.add_argument("--synthetic", action="store_true", help="all jobs of plain sockets, without torch")
    parser.add_argument("--base", metavar="S", type=number(2.0, 3600.0), default=8.0, help="to measure how fast jobs "
                        "are without daemons, and with them before the first fault (default: %(default)g)")  # fmt: skip
    parser.add_argument("--logs", metavar="DIR", type=Path, help="keep the daemons' logs there")
    parser.add_argument("--held", metavar="N", type=integer(1, 10_000), help="so many times instead of other faults")
    parser.add_argument("--workload", choices=("synthetic", "ddp", "nccl"), default="ddp",
                        help="of the jobs of --held; nccl needs a GPU (default: %(default)s)")  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=run_chaos)


def run_held(args: argparse.Namespace) -> int:
    from bench.chaos import held
    from bench.testbed.rootless import ensure_networks
    from paceline.commands.console import print_json, progress_bar
    from paceline.commands.provenance import provenance

    ensure_networks()
    with progress_bar() as bar:
        task = bar.add_task("starting", total=1.0)

        def progress(doing: str, part: float) -> None:
            bar.update(task, description=doing, completed=part)

        result = held.run(args.held, args.workload, progress)
    if args.json:
        print_json({"workload": args.workload} | held.document(result) | provenance())
    else:
        print(*held.lines(result), sep="\n")
    return 0 if result.passed else 1


def run_chaos(args: argparse.Namespace) -> int:
    if args.held is not None:
        return run_held(args)
    from bench.chaos import report
    from bench.chaos.judge import promises
    from bench.chaos.plan import kinds_named
    from bench.chaos.run import Setup, run
    from bench.testbed.rootless import ensure_networks
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance

    setup = Setup(args.seed, args.duration, kinds_named(args.kinds), args.synthetic, args.base, args.logs)
    ensure_networks()
    started_s = perf_counter()
    with progress_bar() as bar:
        task = bar.add_task("starting", total=1.0)
        result = run(setup, lambda doing, part: bar.update(task, description=doing, completed=part))
    wall_s = perf_counter() - started_s
    verdicts = promises(result.seen)
    kept = all(one.kept for one in verdicts)
    if args.json:
        print_json(report.document(setup, result, wall_s) | provenance())
        return 0 if kept else 1
    print_table(f"{len(result.seen.faults)} faults, seed {args.seed}", report.KIND_COLUMNS, report.kind_rows(result))
    print_table("jobs", report.JOB_COLUMNS, report.job_rows(result))
    print("slow: iterations of more than three times their time without daemons. lost, unpaced: sums, in seconds.")
    print("lifted, enforced, at pace: the worst time until limits were lifted, set again, jobs as fast as usual.")
    print("+N: N more times that had not come before the next fault, and may have been longer.")
    for kind, why in result.left_out.items():
        print(f"left out: {kind}: {why}")
    for line in report.verdict_lines(verdicts):
        print(line)
    if not kept:
        print(f"again: {report.repeat_command(setup)}")
    return 0 if kept else 1

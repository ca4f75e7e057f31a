"""`paceline sim trace`: a trace of jobs through a whole cluster, hours of it."""

import argparse
import os
from contextlib import nullcontext
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.commands.arguments import (
    CommandError,
    add_json,
    gated_policy_name,
    integer,
    number,
    placement_name,
    seed,
)
from paceline.flowcore.model.fields import printable

FORMATS = ("muri", "philly", "tiresias", "generated")
MOST_SERVERS = 100_000
LARGEST_S = 1e9
MOST_FUNCTIONS = 20  # that a profile names


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "trace",
        help="a trace of jobs through a cluster",
        description=(
            "Run the jobs of a trace through a cluster: they arrive, wait for GPUs, train and leave.\n\n"
            "jct is from arrival to end. Stretches in which no job comes or goes are simulated for --sample-s\n"
            "seconds and then continued at the pace each job had; --sample-s 0 simulates every iteration.\n"
            "A generated workload is a TOML file (see workloads/)."
        ),
        epilog=(
            "example: paceline sim trace workloads/mlcc/section-vii.toml --format generated --servers 100 \\\n"
            "             --gpus-per-server 8 --placement random --policy paceline"
        ),
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="trace")
    parser.add_argument("--format", choices=FORMATS, required=True, help="of the trace")
    parser.add_argument("--servers", metavar="N", type=integer(1, MOST_SERVERS), required=True)
    parser.add_argument("--gpus-per-server", metavar="M", type=integer(1, 1024), default=8, help="default: 8")
    parser.add_argument(
        "--placement",
        metavar="PL",
        type=placement_name,
        default="random",
        help="such as lwf, or lwf+cassini to rank its candidates (default: random)",
    )
    parser.add_argument(
        "--policy",
        metavar="P",
        type=gated_policy_name,
        required=True,
        help="flow policy, or with what holds jobs back: paceline, fair+cassini, fair-penalty+adadual",
    )
    parser.add_argument("--order", choices=("arrival", "srsf"), default="arrival", help="of the jobs that wait")
    parser.add_argument(
        "--jobs-per-gpu", metavar="N", type=integer(1, 64), default=1, help="that share it in turn (default: 1)"
    )
    parser.add_argument("--jobs", metavar="N", type=integer(1, 10**9), help="only the first N to arrive")
    parser.add_argument("--seed", metavar="N", type=seed, default=1, help="default: 1")
    parser.add_argument(
        "--topology",
        metavar="T",
        default="section-vii",
        help="section-vii, clos, star, dally, dally-10g, titan, or a file of hosts with columns ip,DSW,PSW,ASW"
        " (default: section-vii)",
    )
    parser.add_argument("--tensors", metavar="FILE", type=Path, help="sizes per tensor: {model: [MB, …]}")
    parser.add_argument("--stragglers", metavar="FILE", type=Path, help="measured mini-batch times of workers")
    parser.add_argument(
        "--jitter", metavar="J", type=number(0.0, 0.99), default=0.03, help="without --stragglers (default: 0.03)"
    )
    parser.add_argument(
        "--bad-lines", choices=("refuse", "skip"), default="refuse", help="what to do with them (default: refuse)"
    )
    parser.add_argument("--backfill", action="store_true", help="a job that fits may overtake one that does not")
    parser.add_argument(
        "--sample-s", metavar="S", type=number(0.0, LARGEST_S), default=20.0, help="default: 20; 0: every iteration"
    )
    parser.add_argument("--until-s", metavar="S", type=number(0.001, LARGEST_S), default=inf, help="stop there")
    parser.add_argument(
        "--step-ms", metavar="MS", type=number(0.01, 1000.0), default=5.0, help="shortest step (default: 5)"
    )
    parser.add_argument(
        "--engine",
        choices=("array", "fast", "analytic", "analytic-table"),
        default="array",
        help="flows (its old name: fast), or iteration times from the links or from Table I of Dally (default: array)",
    )
    parser.add_argument(
        "--collective", choices=("ring", "halving-doubling"), default="ring", help="for analytic, Titan (default: ring)"
    )
    parser.add_argument(
        "--restore-s", metavar="S", type=number(0.0, LARGEST_S), default=60.0, help="after preemption (default: 60)"
    )
    parser.add_argument(
        "--processes",
        metavar="N",
        type=integer(1, 64),
        default=1,
        help="once every job is there, jobs that share no link go on in N processes; with --until-s and --sample-s 0",
    )
    parser.add_argument("--profile", action="store_true", help="say where the time went; costs about as much again")
    add_json(parser)
    parser.set_defaults(run=run_trace)


def run_trace(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.memory import PeakByQuarter, peak_memory_mb
    from paceline.sim.profile import profiling
    from paceline.sim.trace import results
    from paceline.sim.trace.formats import stragglers
    from paceline.sim.trace.parts import Work, divisible, run_in_processes
    from paceline.sim.trace.profiles import PROFILES, read_tensors
    from paceline.sim.trace.run import TraceOptions, TraceRun
    from paceline.sim.trace.workload import build_topology, read_jobs

    profiles = read_tensors(args.tensors) if args.tensors else PROFILES
    trace = read_jobs(args.file, args.format, profiles, args.seed, skip_bad=args.bad_lines == "skip", most=args.jobs)
    topology = build_topology(args.topology, args.servers)
    if len(topology.hosts) < args.servers:
        raise CommandError(f"{args.topology} has {len(topology.hosts)} hosts, not {args.servers}")
    measured = stragglers.read(args.stragglers) if args.stragglers else ()
    options = TraceOptions.of(args, stragglers=measured)
    started_s = perf_counter()
    run = TraceRun(topology, options, profiles)
    if args.processes > 1 and not divisible(options, preempts=run.scheduler.tenure_s < inf):
        raise CommandError("--processes needs --until-s, --sample-s 0, the array engine, and jobs that run undisturbed")
    # With an end, time is what passes; without, jobs get through.
    total = args.until_s if args.until_s < inf else len(trace.items)
    with progress_bar() as bar, profiling() if args.profile else nullcontext() as profile:
        task = bar.add_task(f"{len(trace.items)} jobs", total=total)

        memory = PeakByQuarter()

        def tell(now_s: float, done: int) -> None:
            completed = now_s if args.until_s < inf else done
            bar.update(task, completed=completed)
            memory.told(completed / max(total, 1))

        if args.processes > 1:
            run = run_in_processes(Work(topology, options, profiles, trace.items, args.processes), tell)
        else:
            run.run(trace.items, tell)
    memory.told(1.0)
    run.refused += trace.refused
    row = results.row(run, perf_counter() - started_s)
    cpu_s = sum(os.times()[:4])  # of this process and of those it waited for: what a busy machine changes less
    row |= {"wall_s_per_simulated_s": row["wall_s"] / row["simulated_s"], "peak_memory_mb": peak_memory_mb()}
    row |= {"cpu_s": round(cpu_s, 3), "peak_memory_mb_by_quarter": memory.mb}
    document = {"trace": args.file.name, "format": args.format, "skipped_lines": trace.skipped} | row
    if profile is not None:
        document |= {"profile": profile.document(MOST_FUNCTIONS)}
    if args.json:
        print_json(document | {"options": results.options_of(run)} | provenance())
        return 0
    shown = ["jobs_finished", "mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "makespan_s"]
    shown += ["gpu_utilization", "machines_used_mean", "fragmentation_mean", "jobs_running_most", "wall_s"]
    shown += ["cpu_s", "wall_s_per_simulated_s", "peak_memory_mb"]
    rows = [(key, f"{value:,.3f}" if isinstance(value := row[key], float) else str(value)) for key in shown]
    title = f"{args.file.name} on {args.servers} servers under {args.policy}, {args.placement} placement"
    print_table(title, ("", ""), rows)
    if profile is not None:
        for title, spent in (("room", profile.rooms), ("function", profile.functions[:MOST_FUNCTIONS])):
            lines = [(one.where, f"{one.calls:,}", f"{one.own_s:.3f}", f"{one.share:.1%}") for one in spent]
            print_table("where the time went", (title, "calls", "s", "share"), lines)
    if trace.skipped:
        print(f"{trace.skipped} lines skipped")
    for refused in run.refused:
        print(printable(f"refused {refused.job}: {refused.reason}"))
    return 0

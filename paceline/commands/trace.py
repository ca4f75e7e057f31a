"""`paceline sim trace`, `sweep` and `compare`: whole clusters over hours of trace."""

import argparse
import os
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.commands.arguments import CommandError, add_json, gated_policy_name, integer, number, seed
from paceline.flowcore.model.fields import printable

FORMATS = ("muri", "philly", "tiresias", "generated")
MOST_SERVERS = 100_000
LARGEST_S = 1e9


def add_trace(commands: Any) -> None:
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
            "example: paceline sim trace workloads/section-vii.toml --format generated --servers 100 \\\n"
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
    parser.add_argument("--order", choices=("arrival", "srsf"), default="arrival", help="of those who wait")
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
        choices=("fast", "analytic", "analytic-table"),
        default="fast",
        help="flows, or iteration times computed from the links or from Table I of Dally (default: fast)",
    )
    parser.add_argument(
        "--collective", choices=("ring", "halving-doubling"), default="ring", help="for analytic, Titan (default: ring)"
    )
    parser.add_argument(
        "--restore-s", metavar="S", type=number(0.0, LARGEST_S), default=60.0, help="after preemption (default: 60)"
    )
    add_json(parser)
    parser.set_defaults(run=run_trace)


def add_sweep(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="policies × placements × seeds × loads over traces",
        description=(
            "Run everything a sweep file asks for and keep one JSON line per run. Interrupted and started again,\n"
            "it does what is missing. --engine ray uses the cluster that RAY_ADDRESS names, or this machine."
        ),
        epilog="example: paceline sim sweep workloads/sweep.toml --engine local --results out/sweep.jsonl",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="sweep (TOML)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="default: local")
    parser.add_argument("--results", metavar="OUT.jsonl", type=Path, help="default: out/NAME.jsonl")
    parser.add_argument("--seeds", metavar="N", type=integer(1, 1000), help="1 to N, instead of the file's")
    parser.add_argument(
        "--processes", metavar="N", type=integer(1, 1024), default=os.cpu_count(), help="default: one per CPU"
    )
    add_json(parser)
    parser.set_defaults(run=run_sweep)


def add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="tables and distributions of a sweep's results",
        description="Compare the policies of a sweep: a table per trace, and the distributions as a figure.",
        epilog="example: paceline sim compare out/sweep.jsonl --figure out/sweep.png",
    )
    parser.add_argument("results", metavar="RESULTS", type=Path, help="JSON lines of paceline sim sweep")
    parser.add_argument(
        "--against", metavar="P", default="paceline", help="whose gain over the others to show (default: paceline)"
    )
    parser.add_argument("--figure", metavar="OUT.png", type=Path, help="draw the distributions, or the matrix")
    parser.add_argument(
        "--by",
        choices=("policy", "placement", "matrix"),
        default="policy",
        help="what to compare; matrix: placements down, policies across (default: policy)",
    )
    add_json(parser)
    parser.set_defaults(run=run_compare)


def run_sweep(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim.trace import sweep

    runs = sweep.read_sweep(args.file, tuple(range(1, args.seeds + 1)) if args.seeds else ())
    results = args.results or Path("out") / f"{args.file.stem}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    todo = sweep.missing(runs, sweep.read_rows(results))
    rows = sweep.on_ray(todo) if args.engine == "ray" else sweep.local(todo, args.processes)
    origin = provenance()
    with progress_bar() as bar:
        task = bar.add_task(f"{len(runs)} runs", total=len(runs), completed=len(runs) - len(todo))
        for row in rows:
            sweep.append(results, row | origin)
            bar.advance(task)
    wanted = [sweep.identity(run) for run in runs]
    kept = [row for row in sweep.read_rows(results) if row.get("run") in wanted]
    if args.json:
        print_json({"runs": kept, "results": str(results), "done_now": len(todo)} | origin)
        return 0
    columns = ("trace", "policy", "placement", "seed", "load", "mean JCT s", "wall s")
    lines = [
        (
            row["run"]["trace"]["file"],
            row["policy"],
            row["placement"],
            str(row["seed"]),
            f"{row['run']['load']:g}",
            _s(row["mean_jct_s"]),
            _s(row["wall_s"]),
        )
        for row in kept
    ]
    print_table(f"{args.file.name}: {len(kept)} of {len(runs)} runs", columns, lines)
    print(f"wrote {results}")
    return 0


def _s(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def run_compare(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table
    from paceline.commands.provenance import provenance
    from paceline.sim.report import matrix, placement_table, policy_table, trace_figure
    from paceline.sim.report.figure import FigureError, require_figures
    from paceline.sim.trace.sweep import read_rows

    rows = [row for row in read_rows(args.results) if "run" in row and row.get("mean_jct_s") is not None]
    if not rows:
        raise CommandError(f"{args.results}: found no finished run, expected the results of a sweep")
    if args.figure:
        try:
            require_figures(args.figure)
        except FigureError as error:
            raise CommandError(str(error)) from None
        (matrix if args.by == "matrix" else trace_figure).draw(rows, args.figure)
    if args.by == "policy":
        tables = policy_table.tables(rows, args.against)
    else:
        tables = placement_table.tables(rows) if args.by == "placement" else matrix.tables(rows)
    if args.json:
        named = {
            title: [dict(zip(columns, line, strict=True)) for line in lines]
            for title, (columns, lines) in tables.items()
        }
        print_json({"tables": named, "figure": str(args.figure) if args.figure else None} | provenance())
        return 0
    for title, (columns, lines) in tables.items():
        print_table(title, columns, lines)
    return 0


def placement_name(text: str) -> str:
    from paceline.cluster.schedulers import NAMES, OWN

    if text in NAMES:
        return text
    known = f"expected one of {', '.join(OWN)}, or one of them with +cassini"
    raise argparse.ArgumentTypeError(f"no placement {text!r}; {known}")


def run_trace(args: argparse.Namespace) -> int:
    from bench.micro.trace_cost import peak_memory_mb
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim.trace import results
    from paceline.sim.trace.formats import stragglers
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
    run.refused += trace.refused
    with progress_bar() as bar:
        task = bar.add_task(f"{len(trace.items)} jobs", total=len(trace.items))
        run.run(trace.items, lambda now_s, done: bar.update(task, completed=done))
    row = results.row(run, perf_counter() - started_s)
    row |= {"wall_s_per_simulated_s": row["wall_s"] / row["simulated_s"], "peak_memory_mb": peak_memory_mb()}
    document = {"trace": args.file.name, "format": args.format, "skipped_lines": trace.skipped} | row
    if args.json:
        print_json(document | {"options": results.options_of(run)} | provenance())
        return 0
    shown = ("jobs_finished", "mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "makespan_s")
    shown += ("gpu_utilization", "machines_used_mean", "fragmentation_mean", "jobs_running_most", "wall_s")
    shown += ("wall_s_per_simulated_s", "peak_memory_mb")
    rows = [(key, f"{value:,.3f}" if isinstance(value := row[key], float) else str(value)) for key in shown]
    title = f"{args.file.name} on {args.servers} servers under {args.policy}, {args.placement} placement"
    print_table(title, ("", ""), rows)
    if trace.skipped:
        print(f"{trace.skipped} lines skipped")
    for refused in run.refused:
        print(printable(f"refused {refused.job}: {refused.reason}"))
    return 0

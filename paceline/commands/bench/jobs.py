"""`paceline bench jobs`: real jobs on an emulated cluster, under several controls."""

import argparse
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import add_json, integer, number, seed

if TYPE_CHECKING:
    from bench.jobs.control import Control

DEFAULT_CONTROLS = "reno,cubic,bbr,paceline"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "jobs",
        help="real jobs on an emulated cluster, under several controls",
        description=(
            "Run the jobs of a scenario on hosts made of network namespaces, under each control, and each job\n"
            "alone for comparison. Needs root, or user namespaces. A run whose bytes did not cross the emulated\n"
            "links is an error.\n\n"
            "Workloads: ddp (torch DDP over gloo), ps (torch RPC), synthetic (plain sockets, no torch); auto takes\n"
            "ddp for all-reduce jobs and ps for parameter-server jobs. All-reduce jobs may also be, over gloo:\n"
            "overlap (DDP whose buckets travel while layers compute), fsdp, accumulate, checkpoint, long-tail,\n"
            "varied (the three together), tensor, tensor-accumulate, all-to-all, local-sgd, pipeline (two workers),\n"
            "restart, crash; each sends as many bytes in an iteration as the all-reduce (docs/testbed.md).\n"
            "With a GPU: nccl, nccl-stream (computing on the GPU's stream), nccl-ahead (launched ahead), nccl-jax\n"
            "(JAX instead of torch); with --model, nccl (DDP) and nccl-fsdp train that model, whose size takes the\n"
            "place of the scenario's.\n\n"
            "Controls: reno, cubic, bbr, mltcp, mltcp-4 (TCP alone; the last two need root and libbpf); paceline,\n"
            "mlcc, mlcc-open, fair, fair-penalty, fifo, srpt, crux, cassini, adadual, srsf1, srsf2, srsf3 (the\n"
            "daemons under that policy); paceline-yield, paceline-first (beside other traffic: no turns, training\n"
            "first); paceline-jct, paceline-jct-first (the least time to a job's end); paceline-gate,\n"
            "cassini-gate, srsf1-gate, adadual-gate (which hold launches and set no rate); observe, advise (which\n"
            "limit nothing); paceline-throttle, paceline-net-gate, observe-throttle (jobs over NCCL send through\n"
            "our net plugin: paced, held, neither)."
        ),
        epilog="example: paceline bench jobs scenarios/two-jobs.toml --control reno,cubic,bbr --workload synthetic\n"
        "         paceline bench jobs scenarios/testbed/mix-2.toml --workload a=fsdp\n"
        "         paceline bench jobs scenarios/testbed/identical.toml --workload nccl --model resnet50",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="scenario (TOML, version 1)")
    parser.add_argument(
        "--control", metavar="A,B", help=f"comma-separated (default: {DEFAULT_CONTROLS}, as far as the kernel has them)"
    )
    parser.add_argument(
        "--repeat", metavar="N", type=integer(1, 1000), default=1, help="runs of each control (default: %(default)s)"
    )
    parser.add_argument(
        "--workload", metavar="KIND", default="auto", help="for all jobs, or a=KIND,b=KIND (default: %(default)s)"
    )
    parser.add_argument(
        "--model", choices=("resnet50", "gpt2-small"), help="that jobs over NCCL train, on a GPU (default: layers)"
    )
    parser.add_argument("--seed", metavar="N", type=seed, help="instead of the scenario's")
    parser.add_argument(
        "--loss", metavar="P", type=number(0.0, 0.5), default=0.0, help="probability that a packet is lost"
    )
    parser.add_argument(
        "--marks", metavar="P", type=number(0.0, 0.5), default=0.0, help="probability of an ECN mark on a packet"
    )
    parser.add_argument(
        "--bundle-bytes", metavar="N", type=integer(1500, 65536), help="longest bundle of packets a host sends"
    )
    add_json(parser)
    parser.set_defaults(run=run_jobs)


def run_jobs(args: argparse.Namespace) -> int:
    from bench.jobs.cases import Case, make_runs
    from bench.jobs.control_names import control_named, require_kernel
    from bench.jobs.report import CONTROL_COLUMNS, JOB_COLUMNS, control_rows, document, job_rows
    from bench.jobs.run import Conditions
    from bench.jobs.run_store import RunStore
    from bench.jobs.tcp_control import ALONE_CONTROL
    from bench.testbed.impair import Impairment
    from bench.testbed.rootless import ensure_networks
    from bench.testbed.routes import detours, flows_in
    from bench.workload.choice import check_workload, with_model, with_sizes
    from paceline.commands.console import print_json, print_table, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim.scenario_file import read_scenario

    scenario = read_scenario(args.file)
    workload = with_model(args.workload, args.model) if args.model else args.workload
    asked = DEFAULT_CONTROLS if args.control is None else args.control
    controls = [control_named(name) for name in dict.fromkeys(part.strip() for part in asked.split(","))]
    check_workload(scenario.jobs, workload)
    scenario = with_sizes(scenario, workload)
    ensure_networks()
    if args.control is None:  # a control that only root can load was not asked for by name
        controls = usable(controls)
    require_kernel([*controls, control_named(ALONE_CONTROL)])
    conditions = Conditions(
        workload=workload,
        seed=scenario.seed if args.seed is None else args.seed,
        impairment=Impairment(args.loss, args.marks),
        bundle_bytes=args.bundle_bytes,
    )
    case, store = Case(scenario.name, scenario, tuple(control.name for control in controls), conditions), RunStore()
    started_s = perf_counter()
    with progress_bar() as bar:
        task = bar.add_task("starting", total=1.0)

        def progress(doing: str, part: float) -> None:
            bar.update(task, description=doing, completed=part)

        measured = make_runs([case], args.repeat, store, progress)[case.name].measurement()
    wall_s = perf_counter() - started_s
    if args.json:
        repeated = {"failed_runs": store.failures, "disturbed_runs": store.disturbances}
        print_json(document(measured, wall_s) | repeated | provenance())
        return 0
    print_table(f"{scenario.name}, jobs", JOB_COLUMNS, job_rows(measured))
    print_table(f"{scenario.name}, capacity bound {measured.bound.mean:.3f}", CONTROL_COLUMNS, control_rows(measured))
    print("All bytes crossed the emulated network. Slowdown is against each job alone; ± is 95 % over the repeats.")
    if ways := detours(scenario.topology, flows_in(scenario)):
        print(f"not on the path that the bound is for: {', '.join(map(str, ways))}")
    for failure in store.failures:
        print(f"made again: {failure}")
    for disturbance in store.disturbances:
        print(f"kept although disturbed: {disturbance}")
    return 0


def usable(controls: "list[Control]") -> "list[Control]":
    """The controls that this kernel has; says on stderr why it leaves out the others."""
    from bench.jobs.control_names import kernel_lacks

    missing = kernel_lacks(controls)
    for name, reason in missing.items():
        print(f"without {name}: {reason}", file=sys.stderr)
    return [control for control in controls if control.name not in missing]

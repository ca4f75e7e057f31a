"""Two jobs that contend and one alone, held by the gate and paced by the throttle: prints one JSON object.

What is checked (exit status 1 if any fails), of jobs that send 25 MB for each Gbit/s and compute a quarter of a second:

    together   late slowdown of two identical jobs (real_jobs.py), under the gate at most 1.08, the throttle 1.06
    alone      against the same job over NCCL's own sockets without daemons: with the gate armed at most 1 % slower,
               over our transport 2 %, whether it is paced or only watched

`scripts/nccl-check --turns` runs it. Over gloo, for machines without a GPU, there is no throttle.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from bench.experiments.acceptance.job_suite import ALONE, Job, Pair
from bench.experiments.acceptance.real_jobs import late_slowdown, slowdown
from bench.jobs.cases import Case, make_runs
from bench.jobs.launch import ready_for
from bench.jobs.run import Conditions, JobsRun
from bench.jobs.run_store import RunStore
from bench.jobs.tcp_control import ALONE_CONTROL
from bench.testbed.accelerator import gpu
from bench.testbed.rootless import ensure_networks
from nccl_shim import build
from paceline.commands.provenance import provenance
from paceline.failure import Failure

GATE, THROTTLE, UNPACED = "paceline-gate", "paceline-throttle", "observe-throttle"
TOGETHER = {GATE: 1.08, THROTTLE: 1.06}
ALONE_PERCENT = {GATE: 1.0, THROTTLE: 2.0, UNPACED: 2.0}
MB_PER_GBPS, COMPUTE_S = 25.0, 0.25
WORKLOADS = {"nccl": ("nccl", "nccl-stream", "nccl-ahead"), "gloo": ("ddp",)}
SEED = 1


def pair_of(workload: str, gbps: float) -> Pair:
    name = f"{workload}-{gbps:g}g"
    first = Job(name, workload, MB_PER_GBPS * gbps, COMPUTE_S, gbps)
    second = Job(f"{name}-2", workload, MB_PER_GBPS * gbps, COMPUTE_S, gbps, same_as=name)
    return Pair(f"two {name}", "", (first, second), "same", limit_slowdown=TOGETHER[GATE])


def cases_of(pair: Pair, duration_s: float, controls: Sequence[str]) -> list[Case]:
    job, together = pair.jobs[0], tuple(name for name in controls if name not in (UNPACED,))
    alone = (ALONE_CONTROL, *(name for name in controls if name in ALONE_PERCENT))
    scenario = job.alone_scenario(duration_s)
    return [
        Case(scenario.name, scenario, alone, Conditions(f"{job.name}={job.workload}", SEED), alone=False),
        Case(pair.name, pair.scenario(duration_s), together, Conditions(pair.workload, SEED), alone=False),
    ]


Runs = Mapping[str, Sequence[JobsRun]]


def judge(pair: Pair, together: Runs, alone: Runs) -> dict[str, Any]:
    """By control, medians of the repeats; a control without a limit passes."""
    plain = [run.jobs[0] for run in alone[ALONE_CONTROL]]
    late = {
        control: median(
            fmean(late_slowdown(job, run.lasted_ns, by_itself) for job in run.jobs)
            for run, by_itself in zip(runs, plain, strict=True)
        )
        for control, runs in together.items()
    }
    percent = {
        control: 100 * median(slowdown(run.jobs[0], run.lasted_ns, by_itself) - 1
                              for run, by_itself in zip(runs, plain, strict=True))
        for control, runs in alone.items()
        if control != ALONE_CONTROL
    }  # fmt: skip
    return {
        "jobs": pair.name,
        "late_slowdown": late,
        "alone_slower_percent": percent,
        "alone_iteration_s": fmean(end for job in plain for end in _iterations_s(job.iteration_ends_ns)),
        "pass": all(late[name] <= limit for name, limit in TOGETHER.items() if name in late)
        and all(percent[name] <= limit for name, limit in ALONE_PERCENT.items() if name in percent),
    }


def _iterations_s(ends_ns: Sequence[int]) -> list[float]:
    return [(later - earlier) / 1e9 for earlier, later in pairwise(ends_ns)]


def measure(args: argparse.Namespace, controls: Sequence[str]) -> dict[str, Any]:
    found, store = [], RunStore()
    for workload in args.workload.split(","):
        for gbps in args.link_gbps:
            pair = pair_of(workload, gbps)
            alone, together = cases_of(pair, args.duration, controls)
            made = make_runs([alone, together], args.repeats, store)
            found.append(judge(pair, made[together.name].together, made[alone.name].together))
            print(json.dumps(found[-1]), file=sys.stderr)
    asked = {
        "duration_s": args.duration,
        "repeats": args.repeats,
        "limits": {"together": TOGETHER, ALONE: ALONE_PERCENT},
    }
    return {**asked, "pass": all(one["pass"] for one in found), "pairs": found, "failed_runs": store.failures}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="nccl-check --turns",
        description=__doc__.splitlines()[0],
        epilog="example: scripts/nccl-check --turns --workload nccl,nccl-stream --repeats 3",
    )
    parser.add_argument("--backend", choices=[*WORKLOADS], default="nccl")
    parser.add_argument("--workload", help="of both jobs, one after the other: A,B (default: nccl; ddp over gloo)")
    parser.add_argument("--link-gbps", type=float, nargs="+", default=[1.0], metavar="G", help="(default: 1)")
    parser.add_argument("--control", help="A,B (default: cubic, paceline, the gate and the throttle)")
    parser.add_argument("--repeats", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--duration", type=float, default=14.0, help="seconds of a run (default: %(default)s)")
    args = parser.parse_args()
    ours = (GATE, THROTTLE, UNPACED) if args.backend == "nccl" else (GATE,)
    controls = tuple(args.control.split(",")) if args.control else (ALONE_CONTROL, "paceline", *ours)
    args.workload = args.workload or WORKLOADS[args.backend][0]
    wrong = [one for one in args.workload.split(",") if one not in WORKLOADS[args.backend]]
    if wrong or args.repeats < 1 or args.duration < 4 or min(args.link_gbps) <= 0:
        kinds = ", ".join(WORKLOADS[args.backend])
        told = f"--workload of {kinds}; --repeats from 1, --duration from 4, --link-gbps above 0"
        print(f"nccl-check: {told}", file=sys.stderr)
        return 2
    ensure_networks()
    try:
        ready_for(args.backend)
        result = measure(args, controls)
    except (build.NoCompiler, Failure, OSError) as error:
        print(f"nccl-check: {error}", file=sys.stderr)
        return 2
    print(json.dumps({**provenance(), "backend": args.backend, "gpu": gpu(), **result}, indent=1))
    return 0 if result["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())

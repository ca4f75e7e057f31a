"""`paceline whatif`: what the jobs that hosts watch lose to collisions now, and what they would gain."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json, number, seed
from paceline.commands.host import RUNTIME_DIRECTORY
from paceline.commands.whatif.durations import duration_s

if TYPE_CHECKING:
    from paceline.whatif.measured import MeasuredCluster
    from paceline.whatif.prediction import Prediction
    from paceline.whatif.record import HostRecord


MOST_LINKS = 20  # in the table; --json has all


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "whatif",
        help="what jobs lose to collisions now, and what they would gain",
        description=(
            "Ask hostd what it has learned of the jobs it watches, in observe mode or any other, simulate those\n"
            "jobs as TCP lets them run and as Paceline would, and say what to expect. Jobs on other hosts count\n"
            "where they share links: save what each host has watched, and give this command all the files.\n"
            "Changes nothing."
        ),
        epilog=(
            "example: paceline whatif\n"
            "         paceline whatif --save h0.json            # on each host\n"
            "         paceline whatif h0.json h1.json           # anywhere"
        ),
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="*", help="records of hosts, instead of asking hostd")
    parser.add_argument(
        "--runtime-directory", metavar="DIR", type=Path, action="append",
        help=f"of a hostd to ask; may be given several times (default: {RUNTIME_DIRECTORY})",
    )  # fmt: skip
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="write what the host has watched, and stop; - prints it"
    )
    parser.add_argument("--since", metavar="TIME", type=duration_s, help="iterations of the last 90s, 15m, 12h, …")
    parser.add_argument("--seed", metavar="N", type=seed, default=1, help="of the simulation (default: %(default)s)")
    parser.add_argument(
        "--latency-ms", metavar="MS", type=number(0.0, 1000.0), default=2.0,
        help="of a control message between host and switch, one way (default: %(default)s)",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=run_whatif)


def run_whatif(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json
    from paceline.commands.provenance import provenance
    from paceline.whatif.measured import measured_cluster
    from paceline.whatif.prediction import predict

    if args.save is not None:
        return _save(args)
    cluster = measured_cluster(_records(args))
    if not cluster.jobs:
        why = "; ".join(f"{job}: {why}" for job, why in cluster.left_out.items()) or "hostd sees no job"
        raise CommandError(f"nothing to simulate: {why}")
    found = predict(cluster, args.seed, args.latency_ms)
    if args.json:
        print_json(document(cluster, found) | {"latency_ms": args.latency_ms} | provenance())
    else:
        _print(cluster, found)
    return 0


def _save(args: argparse.Namespace) -> int:
    if args.files or len(args.runtime_directory or ()) > 1:
        raise CommandError("--save writes what one host has watched: expected no files, and one runtime directory")
    [found] = _asked(args)
    text = json.dumps(found)
    if str(args.save) == "-":
        print(text)
    else:
        args.save.write_text(text + "\n", encoding="utf-8")
        print(f"{args.save}: {len(found['jobs'])} jobs on {found['host']}", file=sys.stderr)
    return 0


def _records(args: argparse.Namespace) -> "list[HostRecord]":
    from paceline.whatif.record import parse_record, read_record

    if args.files:
        if args.runtime_directory or args.since is not None:
            raise CommandError("expected files, or --runtime-directory and --since, not both")
        return [read_record(path) for path in args.files]
    return [parse_record(found, f"hostd on {found.get('host')}") for found in _asked(args)]


def _asked(args: argparse.Namespace) -> list[dict[str, Any]]:
    from paceline.commands.host import ask_hostd

    return [
        ask_hostd(directory, "profiles", since_s=args.since)
        for directory in args.runtime_directory or (RUNTIME_DIRECTORY,)
    ]


# ---- What people and programs get ----


def document(cluster: "MeasuredCluster", found: "Prediction") -> dict[str, Any]:
    """Keys that outside tools rely on: jobs with name, slowdown_now and slowdown_paceline; gain_percent;
    time_lost_percent."""
    return {
        "jobs": [
            {
                "name": one.job.spec.name,
                "hosts": [*one.job.spec.workers, *one.job.spec.servers],
                "hosts_seen": one.job.hosts_seen,
                "pattern": one.job.spec.pattern.value,
                "approximated": one.job.approximated,
                "iterations": one.job.times.iterations,
                "iteration_s": one.job.iteration_s,
                "alone_s": one.job.alone_s,
                "computing_s": one.job.spec.compute_s,
                "overlap": one.job.spec.overlap,
                "bursts": one.job.spec.bursts,
                "jitter": one.job.spec.jitter,
                "model_mb": one.job.spec.model_mb,
                "measured": not one.job.paced,
                "slowdown_now": one.slowdown_now,
                "slowdown_fair": one.slowdown_fair,
                "slowdown_paceline": one.slowdown_expected,
                "time_lost_percent": 100 * one.lost,
                "gain_percent": 100 * one.gain,
            }
            for one in found.jobs
        ],
        "links": [
            {
                "link": link.link,
                "jobs": list(link.jobs),
                "load": link.load,
                "time_lost_percent": 100 * link.lost,
                "time_lost_percent_paceline": 100 * link.lost_expected,
            }
            for link in found.links
        ],
        "mean_slowdown_now": found.mean_now,
        "mean_slowdown_paceline": found.mean_expected,
        "gain_percent": 100 * found.gain,
        "time_lost_percent": 100 * found.lost,
        "left_out": dict(cluster.left_out),
        "seed": found.seed,
    }


def _print(cluster: "MeasuredCluster", found: "Prediction") -> None:
    from paceline.commands.console import print_table
    from paceline.flowcore.model.fields import printable

    rows = [
        (printable(one.job.spec.name), f"{1e3 * one.job.iteration_s:.0f}", f"{1e3 * one.job.alone_s:.0f}",
         f"{one.slowdown_now:.2f}", f"{one.slowdown_expected:.2f}", f"{100 * one.lost:.1f}", f"{100 * one.gain:+.1f}")
        for one in found.jobs
    ]  # fmt: skip
    columns = ("job", "iteration ms", "alone ms", "slowdown now", "expected", "time lost %", "gain %")
    print_table("Jobs, as they were watched", columns, rows)
    if found.links:
        links = [
            (link.link, str(len(link.jobs)), f"{100 * link.load:.0f}", f"{100 * link.lost:.1f}",
             f"{100 * link.lost_expected:.1f}")
            for link in found.links[:MOST_LINKS]
        ]  # fmt: skip
        print_table("Links that jobs share", ("link", "jobs", "load %", "time lost %", "expected"), links)
    print(f"mean slowdown now {found.mean_now:.3f}, expected with Paceline {found.mean_expected:.3f}: "
          f"iterations {100 * found.gain:.1f} % shorter")  # fmt: skip
    for one in found.jobs:
        hosts = {*one.job.spec.workers, *one.job.spec.servers}
        if one.job.hosts_seen < len(hosts):
            print(f"{printable(one.job.spec.name)}: watched on {one.job.hosts_seen} of its {len(hosts)} hosts")
        if one.job.approximated:
            print(f"{printable(one.job.spec.name)}: simulated as a ring of its hosts")
        if one.job.paced:
            print(f"{printable(one.job.spec.name)}: is paced; what it would lose without is simulated")
    for job, why in cluster.left_out.items():
        print(f"without {printable(job)}: {why}")

"""`paceline bench`: measurements on this machine."""

from typing import Any

from paceline.commands.bench import (
    allocate,
    chaos,
    clean,
    fuzz,
    hostd,
    jobs,
    negotiate,
    paper,
    real_jobs,
    report,
    scale,
    trace,
)
from paceline.commands.bench.kernel import rate, weight
from paceline.commands.whatif import bench as whatif


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure the parts on this machine",
        description="Measure the parts on this machine.",
        epilog="example: paceline bench allocate",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    measurements = (allocate, negotiate, scale, trace, rate, weight, jobs, clean, hostd, paper, real_jobs)
    for command in (*measurements, report, fuzz, chaos, whatif):
        command.add_parser(commands)

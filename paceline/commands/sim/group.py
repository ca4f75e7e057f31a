"""`paceline sim`: the commands of the simulator."""

from typing import Any

from paceline.commands.sim import agreement, compare, faults, lies, mixes, paper, run, sweep, testbed, trace


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "sim",
        help="simulate jobs that share a network",
        description="Simulate jobs that share a network, with the decision code of hosts and switches.",
        epilog="example: paceline sim run scenarios/two-jobs.toml --policy paceline",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (run, mixes, trace, sweep, compare, paper, agreement, testbed, faults, lies):
        command.add_parser(commands)

"""The `paceline` command: finds the subcommand, and turns every failure into one line and an exit status.

    0 done     2 bad input, one line on stderr     130 interrupted     141 the reader of our output went away
    143 terminated

Each group of commands is a module here, which imports what it runs only when it runs it: --help stays quick.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import NoReturn

from nccl_shim import commands as shim_commands
from paceline import __version__
from paceline.commands import certs as certs_commands
from paceline.commands import cluster as cluster_commands
from paceline.commands import demo
from paceline.commands import host as host_commands
from paceline.commands import sim as sim_commands
from paceline.commands import switch as switch_commands
from paceline.commands.arguments import CommandError, Parser
from paceline.commands.bench import micro as bench_commands
from paceline.failure import Failure
from paceline.flowcore.model.fields import printable
from paceline.flowcore.model.scenario import ScenarioError

BAD_INPUT = 2
INTERRUPTED = 128 + signal.SIGINT
READER_GONE = 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a µ must not fail on an ASCII terminal
    try:
        with exit_on_sigterm():
            status = _run(argv)
        sys.stdout.flush()  # a closed pipe shows here, where it can be caught, and not while Python exits
        return status
    except BrokenPipeError:
        # What is still buffered must go somewhere, or Python complains about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (CommandError, ScenarioError, Failure) as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        if error.name != "bench":
            raise
        return _refuse("this command needs the testbed, which only a checkout has: clone Paceline, run ./scripts/setup")
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """SIGTERM leaves through every `finally`, so that whatever a command has started ends with it."""

    def leave(signum: int, frame: object) -> NoReturn:
        raise SystemExit(128 + signum)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def build_parser() -> Parser:
    parser = Parser(
        prog="paceline",
        description="Paces the network bursts of training jobs so that jobs sharing a cluster take turns.",
        epilog="example: paceline demo",
    )
    parser.add_argument("--version", action="version", version=f"paceline {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    groups = (demo, sim_commands, cluster_commands, bench_commands, shim_commands, host_commands, switch_commands)
    groups += (certs_commands,)
    for group in groups:
        group.add_parser(commands)
    return parser


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit as done:  # --help and --version have printed
        return int(done.code or 0)
    return int(arguments.run(arguments))


def _refuse(reason: str) -> int:
    print(f"paceline: {printable(reason)}", file=sys.stderr)  # a file's name or content may be in the reason
    return BAD_INPUT

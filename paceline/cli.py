"""The `paceline` command: finds the subcommand, and turns every failure into one line and an exit status.

    0 done     2 bad input, one line on stderr     130 interrupted     141 the reader of our output went away
    143 terminated

Each group of commands is a module, which imports what a command needs only when it runs: --help stays quick.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, NoReturn

from nccl_shim import commands as shim_commands
from paceline import __version__
from paceline.commands import certs as certs_commands
from paceline.commands import cluster as cluster_commands
from paceline.commands import demo, plain_text, testbed
from paceline.commands import host as host_commands
from paceline.commands import switch as switch_commands
from paceline.commands.arguments import CommandError, Parser
from paceline.commands.bench import group as bench_commands
from paceline.commands.install import group as install_commands
from paceline.commands.sim import group as sim_commands
from paceline.commands.topology import group as topology_commands
from paceline.commands.watch import cluster as cluster_status
from paceline.commands.watch import trace as trace_commands
from paceline.commands.watch import web as web_command
from paceline.commands.whatif import report, whatif
from paceline.failure import Failure
from paceline.flowcore.model.fields import printable
from paceline.flowcore.model.scenario import ScenarioError

BAD_INPUT = 2
INTERRUPTED = 128 + signal.SIGINT
READER_GONE = 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    _reopen_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors=plain_text.register())  # a µ must not fail on an ASCII terminal
    try:
        with exit_on_sigterm():
            status = _run(argv)
        _flush_output()
        return status
    except BrokenPipeError:
        _drop_output()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (CommandError, ScenarioError, Failure) as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        if not testbed.is_missing(error):
            raise
        return _refuse(testbed.NEEDED)
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _reopen_closed_streams() -> None:
    """After `>&-` Python has no stdout: /dev/null takes its place, and stderr's, whose lines would go to stdout."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open to the end


def _flush_output() -> None:
    """A closed pipe or a full disk shows here, where it can be caught, and not while Python exits."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        _drop_output()
        raise CommandError(f"standard output: {error.strerror}") from None


def _drop_output() -> None:
    """What is still buffered must go somewhere, or Python complains about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    commands: Any = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    demo.add_parser(commands)
    sim_commands.add_parser(commands)
    cluster_commands.add_parser(commands)
    bench_commands.add_parser(commands)
    shim_commands.add_parser(commands)
    host_commands.add_parser(commands)
    whatif.add_parser(commands)
    report.add_parser(commands)
    cluster_status.extend(commands.choices["status"])
    switch_commands.add_parser(commands)
    web_command.add_parser(commands)
    trace_commands.add_parser(commands)
    certs_commands.add_parser(commands)
    topology_commands.add_parser(commands)
    install_commands.add_parser(commands, parser)
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

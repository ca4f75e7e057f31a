"""`paceline run` and `paceline jobs`. Law: parse, call, print; what they do is in launcher and reader."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nccl_shim.jobs_view import as_json, as_table
from nccl_shim.launcher import observed_environment
from nccl_shim.segment.clibrary import LibraryUnusable, load_library
from nccl_shim.segment.identity import identity_from_env, weight_milli_of
from nccl_shim.segment.job_name import why_no_name
from nccl_shim.segment.memory_search import admit_memories
from nccl_shim.segment.reader import ProcessView, Reader
from nccl_shim.segment.snapshot import MOST_ITERATIONS
from nccl_shim.throttle import ThrottleRefused, throttle_environment

RUN_EXAMPLE = """example:
  paceline run --job bert -- torchrun --nproc-per-node 8 train.py --epochs 3

The command replaces this process: its output, signals and exit status are its own."""
JOBS_EXAMPLE = """example:
  paceline jobs --watch
  paceline jobs --json | jq '.processes[] | {job, rank, waiting_bytes}'"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers both commands."""
    add_run_parser(subparsers)
    add_jobs_parser(subparsers)


def add_run_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "run",
        help="start a training job so that its traffic can be seen",
        description="Starts a training command with Paceline's counters inside; the script is not changed.",
        epilog=RUN_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--job", metavar="NAME", help="its name, the same on all hosts (default: of MPI, Slurm, Kubernetes, torchrun …)"
    )
    parser.add_argument("--pattern", choices=("allreduce", "ps"), help="how the job communicates (default: seen)")
    parser.add_argument("--role", choices=("worker", "server"), help="this host's part in a PS job")
    parser.add_argument(
        "--weight", metavar="W", help="how much it counts: 0.1 to 10, or best-effort; hostd holds it to what it allows"
    )
    parser.add_argument(
        "--iterations", metavar="N", help="how many it will do from its start on, where hostd's objective is jct"
    )
    parser.add_argument(
        "--shm-dir", type=Path, metavar="DIR", help="where counters go if no hostd listens (default: /dev/shm/paceline)"
    )
    parser.add_argument("--socket", type=Path, metavar="PATH", help="hostd's socket, where counters are registered")
    parser.add_argument(
        "--throttle", action="store_true", help="let hostd pace what NCCL sends, on any transport; on all hosts or none"
    )
    parser.add_argument("--json", action="store_true", help="print the environment as one object; start nothing")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to start")
    parser.set_defaults(run=run)


def add_jobs_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "jobs",
        help="what the jobs on this host are sending",
        description="Shows every process of every observed job: its iteration, bytes waiting and sent.",
        epilog=JOBS_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--shm-dir",
        type=Path,
        metavar="DIR",
        help="only those in this directory (default: registered ones and /dev/shm/paceline)",
    )
    parser.add_argument("--watch", action="store_true", help="keep the table up to date until interrupted")
    parser.add_argument("--interval", type=float, default=0.5, metavar="S", help="seconds between updates")
    parser.add_argument("--reap", action="store_true", help="remove the counters of ended processes")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.set_defaults(run=jobs)


def run(args: argparse.Namespace) -> int:
    """Becomes the job's command; returns only if it cannot."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        return _wrong("run: no command; write it after --, as in: paceline run -- torchrun train.py")
    for option, name in (("--job", args.job), ("PACELINE_JOB", os.environ.get("PACELINE_JOB") or None)):
        if name is not None and (why := why_no_name(name)) is not None:
            return _wrong(f"run: {option} {why}")
    for option, weight in (("--weight", args.weight), ("PACELINE_WEIGHT", os.environ.get("PACELINE_WEIGHT"))):
        if weight and not 100 <= weight_milli_of(weight) <= 10_000:
            return _wrong(f"run: {option} is {_printable(weight)}, expected 0.1 to 10 (three decimals), or best-effort")
    told = os.environ.get("PACELINE_ITERATIONS")
    for option, said in (("--iterations", args.iterations), ("PACELINE_ITERATIONS", told)):
        if said and not (said.isascii() and said.isdigit() and 0 < int(said) <= MOST_ITERATIONS):
            return _wrong(f"run: {option} is {_printable(said)}, expected a number from 1 to {MOST_ITERATIONS}")
    where = socket.gethostname(), args.job, args.pattern, args.role, args.shm_dir, args.socket, args.weight
    added = observed_environment(os.environ, command, *where, int(args.iterations or 0))
    if args.throttle:
        try:
            added |= throttle_environment(os.environ)
        except ThrottleRefused as refused:
            return _wrong(f"run: --throttle: {_printable(str(refused))}")
    if (why := why_no_plugin()) is not None:
        print(f"paceline run: NCCL's traffic is not counted: {_printable(why)}", file=sys.stderr)
    if args.json:
        print(json.dumps({"command": command, "environment": added}))
        return 0
    program = shutil.which(command[0])
    if program is None:
        return _wrong(f"run: {command[0]}: not found, or not executable")
    with Reader(Path(added["PACELINE_SHM_DIR"])) as reader:
        reader.reap()  # so that files do not pile up where no daemon runs
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(program, command, {**os.environ, **added})
    except OSError as error:
        return _wrong(f"run: {command[0]}: {error.strerror}")


def why_no_plugin() -> str | None:
    """Why jobs run without the NCCL plugin; None if they have it."""
    try:
        load_library()
    except LibraryUnusable as error:
        return str(error)
    return None


def jobs(args: argparse.Namespace) -> int:
    """Prints what the reader sees; with --watch, until interrupted."""
    if args.interval <= 0:
        return _wrong(f"jobs: --interval is {args.interval}, expected more than 0")
    if args.watch and args.json:
        return _wrong("jobs: --watch and --json exclude each other")
    if args.shm_dir is not None and args.shm_dir.exists() and not args.shm_dir.is_dir():
        return _wrong(f"jobs: --shm-dir is {args.shm_dir}, expected a directory")
    with Reader(args.shm_dir, estimate_waiting=True) as reader:
        # A directory of its own is a hostd of its own: what is registered at another one is not asked for.
        look: Callable[[], None] = partial(admit_memories, reader)
        if args.shm_dir is not None or identity_from_env().socket is None:
            look = _nowhere_else
        if args.reap:
            reader.reap()
        if args.watch:
            return _watch(reader, look, args.interval)
        look()
        views = reader.poll()
        if any(view.alive for view in views) and not args.json:
            views = _poll_for(reader, look, seconds=0.3)  # a moment's look lets the rhythm be learned
        if args.json:
            print(json.dumps(as_json(views, reader.refused)))
            return 0
        if not views:
            print(f"no observed jobs registered or in {reader.directory}; start one with: paceline run -- COMMAND")
        else:
            from rich.console import Console  # here: `run` must start jobs where only torch is installed

            Console().print(as_table(views))
        for name, why in reader.refused.items():
            print(f"paceline: {_printable(f'{reader.directory / name} is not believed: {why}')}", file=sys.stderr)
    return 0


def _printable(text: str) -> str:
    """Anybody may name a file there: a terminal escape must not come through."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _nowhere_else() -> None:
    """For segments: the directory has them all."""


def _poll_for(reader: Reader, look: Callable[[], None], seconds: float) -> list[ProcessView]:
    until = time.monotonic() + seconds
    look()
    views = reader.poll()
    while time.monotonic() < until:
        time.sleep(0.02)
        views = reader.poll()
    return views


def _watch(reader: Reader, look: Callable[[], None], interval_s: float) -> int:
    from rich.live import Live

    try:
        with Live(as_table(reader.poll()), auto_refresh=False, screen=False) as live:
            while True:
                # Poll faster than people look, so that no iteration is missed in learning.
                live.update(as_table(_poll_for(reader, look, interval_s)), refresh=True)
    except KeyboardInterrupt:
        return 0


def _wrong(message: str) -> int:
    print(f"paceline {message}", file=sys.stderr)
    return 2

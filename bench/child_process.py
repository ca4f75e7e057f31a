"""Processes that end with whoever started them, and carry his mark.

Whatever way the owner ends, SIGKILL included, the kernel kills them (PR_SET_PDEATHSIG). Their children it does not:
those are found by the mark, which is in the environment and so inherited (`paceline bench clean`).
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OWNER_VARIABLE = "PACELINE_TESTBED"
PR_SET_PDEATHSIG = 1
ENDING = (signal.SIGINT, signal.SIGTERM)
_libc = ctypes.CDLL(None, use_errno=True)


def owned_popen(argv: Sequence[str], env: Mapping[str, str] | None = None, **options: Any) -> "subprocess.Popen[Any]":
    """Killed when the calling thread ends: call it from the main thread."""
    marked = {**(os.environ if env is None else env), OWNER_VARIABLE: owner_mark(os.getpid())}
    process: subprocess.Popen[Any] | None = None
    try:
        with _signals_later():
            process = subprocess.Popen(argv, env=marked, preexec_fn=die_with(os.getpid()), **options)
        return process  # noqa: RET504 - it may be interrupted on its way
    except BaseException:
        if process is not None:  # nobody will have it
            with process:
                process.kill()
        raise


@contextmanager
def _signals_later() -> Iterator[None]:
    """Around a fork Python calls back (logging's locks, for one) and ignores what is raised there: a Ctrl-C that comes
    just then would be lost. Nothing else serves: one that the main thread blocks is delivered to another."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def owner_mark(pid: int) -> str:
    """A process for certain: numbers are used again, but not with the same start time, and every container counts
    its own."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    fields_after_name = stat.rpartition(")")[2].split()
    return f"{numbered_by()}-{pid}-{fields_after_name[19]}"


def numbered_by() -> int:
    """The namespace in which we know processes by these numbers."""
    return Path("/proc/self/ns/pid").stat().st_ino


def die_with(parent_pid: int) -> Callable[[], None]:
    """A preexec_fn: the process is killed when its parent ends."""

    def before_exec() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it ended before we asked
            os._exit(1)

    return before_exec

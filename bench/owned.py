"""Processes that end with whoever started them, and carry his mark.

Whatever way the owner ends, SIGKILL included, the kernel kills them (PR_SET_PDEATHSIG). Their children it does not:
those are found by the mark, which is in the environment and so inherited (`paceline bench clean`).
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

OWNER_VARIABLE = "PACELINE_TESTBED"
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def owned_popen(argv: Sequence[str], env: Mapping[str, str] | None = None, **options: Any) -> "subprocess.Popen[Any]":
    """Killed when the calling thread ends: call it from the main thread."""
    marked = {**(os.environ if env is None else env), OWNER_VARIABLE: owner_mark(os.getpid())}
    return subprocess.Popen(argv, env=marked, preexec_fn=die_with(os.getpid()), **options)


def owner_mark(pid: int) -> str:
    """A process for certain: numbers are used again, but not with the same start time."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:  # noqa: PTH123
        fields_after_name = stat.read().rpartition(")")[2].split()
    return f"{pid}-{fields_after_name[19]}"


def die_with(parent_pid: int) -> Callable[[], None]:
    """A preexec_fn: the process is killed when its parent ends."""

    def before_exec() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it ended before we asked
            os._exit(1)

    return before_exec

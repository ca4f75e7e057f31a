"""Child processes that end with their parent, and carry its mark.

However the parent ends, SIGKILL included, the kernel kills its children (PR_SET_PDEATHSIG), but not its grandchildren.
Those are found by the owner's mark, which is in the environment and so inherited (`paceline bench clean`).
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


def start_child(argv: Sequence[str], env: Mapping[str, str] | None = None, **options: Any) -> "subprocess.Popen[Any]":
    """The child is killed when the calling thread ends: call this from the main thread."""
    marked = {**(os.environ if env is None else env), OWNER_VARIABLE: owner_mark(os.getpid())}
    process: subprocess.Popen[Any] | None = None
    try:
        with _signals_deferred():
            process = subprocess.Popen(argv, env=marked, preexec_fn=die_with_parent(os.getpid()), **options)
        return process  # noqa: RET504 - it may be interrupted on its way
    except BaseException:
        if process is not None:  # the caller does not get it
            with process:
                process.kill()
        raise


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Around a fork Python calls back (logging's locks, for one) and ignores what is raised there: a Ctrl-C that comes
    just then would be lost. To block the signal does not help: the kernel delivers it to another thread."""
    arrived: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: arrived.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrived_number in arrived:
            signal.raise_signal(arrived_number)


def owner_mark(pid: int) -> str:
    """Names a process for good: a pid is used again, but not with the same start time, and every container has pids of
    its own."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    fields_after_name = stat.rpartition(")")[2].split()
    return f"{pid_namespace()}-{pid}-{fields_after_name[19]}"


def pid_namespace() -> int:
    """The namespace in which this process knows others by their pids."""
    return Path("/proc/self/ns/pid").stat().st_ino


def die_with_parent(parent_pid: int) -> Callable[[], None]:
    """A preexec_fn: the process is killed when its parent ends."""

    def before_exec() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # the parent ended before the prctl
            os._exit(1)

    return before_exec

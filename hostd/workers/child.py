"""A small process beside hostd: its guardian, its workers. Law: it outlives the signals that end a service.

A process without threads forks its workers: they are there at once. hostd has threads (gRPC's), and starts an
interpreter for each.

Plain Python: 8 MB of its own, not worth a second language; `-S` and a short list of imports keep it there.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

_KEPT = ("LD_LIBRARY_PATH", "PYTHONHOME")  # of our environment: where an interpreter may find itself
_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PACKAGE_PARENT = Path(__file__).parents[2]


class Child(Protocol):
    """As much of subprocess.Popen as is used."""

    pid: int

    def poll(self) -> int | None: ...
    def kill(self) -> None: ...
    def wait(self) -> int: ...


class ForkedChild:
    """Runs a function, with nothing open but these descriptors of ours."""

    def __init__(self, run: Callable[[], None], descriptors: Sequence[int]) -> None:
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                _keep_only(descriptors)
                run()
            finally:
                os._exit(0)  # nothing of what the parent has to do at its end

    def poll(self) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self._status is None:
            _, self._status = os.waitpid(self.pid, 0)
        return self._status


def _keep_only(descriptors: Sequence[int]) -> None:
    """Standard output, too, would be waited for by whichever process reads it."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    last = 2
    for kept in sorted(descriptors):
        os.closerange(last + 1, kept)
        last = kept
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def start_child(
    module: str, arguments: Sequence[object], descriptors: Sequence[int], stdout: int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    """Runs a module with these descriptors of ours; raises OSError."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # Inherited: a signal that ends a service must not end the child, not even while its interpreter starts.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        return subprocess.Popen(
            # -P and cwd: a json.py in the directory that hostd was started in must not run as root.
            [sys.executable, "-P", "-S", "-m", module, *map(str, arguments)],
            cwd="/",
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            env={**kept, "PYTHONPATH": str(_PACKAGE_PARENT)},
            start_new_session=True,  # a Ctrl-C meant for hostd must not reach it
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

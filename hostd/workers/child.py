"""A small process beside hostd: its guardian, its workers. Law: it outlives the signals that end a service.

Plain Python: 8 MB of its own, not worth a second language; `-S` and a short list of imports keep it there.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_KEPT = ("LD_LIBRARY_PATH", "PYTHONHOME")  # of our environment: where an interpreter may find itself
_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PACKAGE_PARENT = Path(__file__).parents[2]


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

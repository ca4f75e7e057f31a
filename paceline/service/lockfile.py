"""One instance: the process that holds the lock on the file. The kernel frees it with the process, even after kill -9.

The file stays behind, unlocked: removing it would let two daemons each lock a file of the same name. The descriptor
is closed on exec, but a child forked without exec shares the lock and keeps it.

The file is for its user alone: flock needs no more than a descriptor, so a user that may read it may hold the lock.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODE = 0o600


class AlreadyRunning(Exception):
    """Another instance has the lock; str() is the line for the operator."""


@contextmanager
def only_instance(path: Path) -> Iterator[None]:
    # No links followed: other users may be able to write to the directory.
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
    try:
        if stat.S_IMODE(os.fstat(lock).st_mode) != MODE:
            os.fchmod(lock, MODE)  # an earlier release left it readable
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
            raise AlreadyRunning(f"another instance (pid {pid or 'unknown'}) is running; it holds {path}") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)

"""One instance: the process that holds the lock on the file. The kernel frees it with the process, even after kill -9.

A process that was killed and cannot die (in a system call that does not return) does nothing more, and does not count.

The file stays behind, unlocked: removing it would let two daemons each lock a file of the same name. The descriptor
is closed on exec, but a child forked without exec shares the lock and keeps it.

The file is for its user alone: flock needs no more than a descriptor, so a user that may read it may hold the lock.
"""

import fcntl
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODE = 0o600


class AlreadyRunning(Exception):
    """Another instance has the lock; str() is the line for the operator."""


@contextmanager
def only_instance(path: Path) -> Iterator[None]:
    lock = _locked(path)
    try:
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:  # no space left, say
            raise OSError(error.errno, error.strerror, str(path)) from None
        yield
    finally:
        os.close(lock)


def _locked(path: Path) -> int:
    # No links followed: other users may be able to write to the directory.
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
    try:
        if stat.S_IMODE(os.fstat(lock).st_mode) != MODE:
            os.fchmod(lock, MODE)  # an earlier release left it readable
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    except BlockingIOError:
        text = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        os.close(lock)
    except BaseException:
        os.close(lock)
        raise
    if not (text.isdecimal() and was_killed(int(text))):
        raise AlreadyRunning(f"another instance (pid {text or 'unknown'}) is running; it holds {path}")
    path.unlink(missing_ok=True)  # the dead one's; a third instance finds the new file, and its lock
    return _locked(path)


def was_killed(pid: int) -> bool:
    """Whether a SIGKILL waits for one of its threads: it runs no more, even if it is still there."""
    try:
        return any(_is_pending(thread / "status") for thread in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False


def _is_pending(status: Path) -> bool:
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return bool((int(lines["SigPnd"], 16) | int(lines["ShdPnd"], 16)) & 1 << signal.SIGKILL - 1)

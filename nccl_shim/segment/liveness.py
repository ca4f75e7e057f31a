"""Whether a writer still lives. Law: a pid alone proves nothing; pid and start time together do.

A writer in another pid namespace (a container) names a pid that means something else here. Its file carries
the namespace, and the writer holds a shared lock on it for life: the lock tells what the pid cannot.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


def start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, or None when there is no such process."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()  # its name may be cut in the middle of a character
    except OSError:
        return None
    fields = line.rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        return None  # a zombie writes nothing more
    return int(fields[19])


def own_pid_namespace() -> int:
    """The inode of this process's pid namespace, 0 when unknown."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def is_alive(file: int, pid: int, pid_start_ticks: int, pid_namespace: int) -> bool:
    """Whether the process that wrote the open file `file` still runs."""
    if pid_namespace == own_pid_namespace():
        return start_ticks(pid) == pid_start_ticks
    return _is_locked(file)


def host_pid(pid: int, pid_start_ticks: int, pid_namespace: int | None) -> int | None:
    """The writer's pid as seen from here: what pidfd_open needs. None: in whichever namespace it has that pid."""
    if pid_namespace in (None, own_pid_namespace()):
        if start_ticks(pid) == pid_start_ticks:
            return pid
        if pid_namespace is not None:
            return None
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, StopIteration):
            if pid_namespace is not None and (entry / "ns/pid").stat().st_ino != pid_namespace:
                continue
            line = next(line for line in (entry / "status").read_bytes().splitlines() if line.startswith(b"NSpid:"))
            if int(line.split()[-1]) == pid and start_ticks(int(entry.name)) == pid_start_ticks:
                return int(entry.name)
    return None


def owner_of(pid: int) -> int | None:
    """The uid that runs `pid`, or None when there is no such process."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def _is_locked(file: int) -> bool:
    # A fresh description of the same file: the lock of our own descriptor would not conflict with itself.
    try:
        other = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True  # cannot tell: do not reap
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(other)
    return False

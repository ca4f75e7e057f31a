"""What a testbed might leave behind, and its removal.

Namespaces, devices and qdiscs have no name and live as long as the processes in them, and processes carry the mark of
the testbed's owner in their environment: pid namespace, pid and start time. A marked process whose owner is gone is a
leftover, wherever it is in the process tree. A directory of counters carries the mark in its name. So there is no
record to keep or to lose. Owners in another container cannot be seen from here, and their processes are left alone.
"""

import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.child_process import OWNER_VARIABLE, owner_mark, pid_namespace

_DIRECTORY_PREFIX = "paceline-testbed-"
_GONE_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Removed:
    pids: tuple[int, ...]
    directories: tuple[str, ...]


def new_directory() -> Path:
    """For the files that processes of a testbed share: counters, logs. In memory, where /dev/shm is there."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    return Path(tempfile.mkdtemp(prefix=f"{_DIRECTORY_PREFIX}{owner_mark(os.getpid())}-", dir=parent))


def remove_leftovers() -> Removed:
    """Kills processes and removes directories of testbeds whose owner is gone; those of living owners stay."""
    pids = [pid for pid, owner in marked_processes() if not _lives(owner) and _kill(pid, owner)]
    directories = [path for path in _directories() if not _lives(_owner_of(path))]
    for path in directories:
        shutil.rmtree(path, ignore_errors=True)
    return Removed(tuple(pids), tuple(str(path) for path in directories if not path.exists()))


def marked_processes() -> Iterator[tuple[int, str]]:
    """Every process of any testbed, with its owner's mark."""
    for process in Path("/proc").glob("[0-9]*"):
        owner = _mark_on(int(process.name))
        if owner is not None:
            yield int(process.name), owner


def _mark_on(pid: int) -> str | None:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return None
    name = f"{OWNER_VARIABLE}=".encode()
    return next((entry.removeprefix(name).decode() for entry in environment if entry.startswith(name)), None)


def _lives(owner: str) -> bool:
    """As far as this process can know; a zombie does not live."""
    try:
        namespace, pid, _ = map(int, owner.split("-"))
    except ValueError:
        return True  # another version's mark
    if namespace != pid_namespace():
        return True
    try:
        return owner_mark(pid) == owner and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


def _kill(pid: int, owner: str) -> bool:
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Checked again now that there is a pidfd: the pid may have gone to another process since.
        if _mark_on(pid) != owner:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [], _GONE_WITHIN_S)
        return True
    finally:
        os.close(process)


def _directories() -> list[Path]:
    places = {Path("/dev/shm"), Path(tempfile.gettempdir())}
    found = (path for place in places for path in place.glob(f"{_DIRECTORY_PREFIX}*"))
    return sorted(path for path in found if _is_ours(path))


def _is_ours(directory: Path) -> bool:
    with suppress(FileNotFoundError):  # another process has just removed it
        return directory.is_dir() and directory.stat().st_uid == os.getuid()
    return False


def _owner_of(directory: Path) -> str:
    return "-".join(directory.name.removeprefix(_DIRECTORY_PREFIX).split("-")[:3])

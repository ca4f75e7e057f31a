"""Access to the segment file of another user's job, through the process that writes it.

The file is for the job's user alone, and the service has no right to read every user's files. But the writer holds
it open as long as it lives, and a process that may ptrace may duplicate the descriptor:

    PID-START-N.pls ──▶ that process ──▶ in its /proc/PID/fdinfo the file's inode ──▶ pidfd_getfd

The duplicate is read like a file of our own, and like one it is believed only after its checks (segment_file.py).
A file that no process with its name holds open is not looked for again: every user can put one there, and looking has
its price.
"""

import os
import re
import stat
from itertools import islice
from pathlib import Path

from hostd.kernel.fdinfo import descriptors
from hostd.kernel.pidfd import SocketGone, duplicate_descriptor
from nccl_shim.segment.liveness import host_pid
from nccl_shim.segment.segment_file import open_own

MOST_DESCRIPTORS = 4096  # the shim opens its file early
_NAME = re.compile(r"(\d{1,10})-(\d{1,20})-\d+\.pls")
_MOST_REFUSED = 1024


class SegmentAccess:
    def __init__(self) -> None:
        self._refused: set[tuple[int, int]] = set()

    def open(self, path: Path) -> int:
        """A descriptor of the file at `path`, opened here or a duplicate of the writer's; raises OSError."""
        try:
            return open_own(path)
        except PermissionError:
            wanted = path.lstat()
            if (wanted.st_dev, wanted.st_ino) in self._refused or not stat.S_ISREG(wanted.st_mode):
                raise
            duplicate = _duplicate(path, wanted)
            if duplicate is None:
                if len(self._refused) >= _MOST_REFUSED:
                    self._refused.clear()
                self._refused.add((wanted.st_dev, wanted.st_ino))
                raise
            return duplicate


def _duplicate(path: Path, wanted: os.stat_result) -> int | None:
    named = _NAME.fullmatch(path.name)
    pid = host_pid(int(named[1]), int(named[2]), None) if named else None
    if pid is None:
        return None
    try:
        for one in islice(descriptors(pid), MOST_DESCRIPTORS):
            if one.inode != wanted.st_ino:
                continue
            duplicate = duplicate_descriptor(pid, one.fd)
            found = False
            try:
                found = os.path.samestat(os.fstat(duplicate), wanted)  # and not of another file system
            finally:  # a file system of the job's own may refuse to say which file it is
                if not found:
                    os.close(duplicate)
            if found:
                return duplicate
    except (SocketGone, OSError):
        pass
    return None

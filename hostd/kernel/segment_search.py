"""The file of counters of another user's job, as a duplicate of its writer's descriptor.

    the pid and start time in its name ──▶ that process ──▶ in its /proc/PID/fdinfo the file's inode ──▶ pidfd_getfd

A process may have a file system of its own, whose server answers fstat and close when it likes (calls.py).
"""

import errno
import os
from itertools import islice

from hostd.kernel.fdinfo import descriptors
from hostd.kernel.pidfd import SocketGone, duplicate_descriptor
from nccl_shim.segment.liveness import host_pid

MOST_DESCRIPTORS = 4096  # the shim opens its file early


def duplicate_of(pid: int, start_ticks: int, device: int, inode: int) -> int:
    """A descriptor of this file, which the process named so holds open; raises FileNotFoundError."""
    try:
        if (found := host_pid(pid, start_ticks, None)) is None:
            raise ProcessLookupError
        for one in islice(descriptors(found), MOST_DESCRIPTORS):
            if one.inode == inode:
                duplicate = duplicate_descriptor(found, one.fd)
                if _is(duplicate, device, inode):  # and not of another file system
                    return duplicate
                os.close(duplicate)
    except (SocketGone, OSError):
        pass
    raise FileNotFoundError(errno.ENOENT, "its writer does not hold it open")


def _is(descriptor: int, device: int, inode: int) -> bool:
    try:
        info = os.fstat(descriptor)
    except OSError:  # a file system of the job's own may refuse to say which file it is
        return False
    return (info.st_dev, info.st_ino) == (device, inode)

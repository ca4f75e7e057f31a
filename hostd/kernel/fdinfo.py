"""What the descriptors of a process name, read with the right to ptrace it.

The names in /proc/PID/fd are for the process's user alone; /proc/PID/fdinfo has the same numbers, and since Linux 5.14
the inodes.

"""

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MOUNT_AND_INODE = re.compile(rb"mnt_id:\s*(\d+)\nino:\s*(\d+)\n")


class Described(NamedTuple):
    fd: int
    mount: int
    inode: int


def descriptors(pid: int) -> Iterator[Described]:
    """One by one, lowest first; raises OSError, PermissionError also of a kernel that tells no inode."""
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            yield described(pid, int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # closed meanwhile


def described(pid: int, fd: int) -> Described:
    path = Path(f"/proc/{pid}/fdinfo/{fd}")
    with path.open("rb", buffering=0) as file:
        found = _MOUNT_AND_INODE.search(file.read(256))  # some kinds have much more to say after that
    if found is None:
        raise PermissionError(errno.EACCES, "this kernel tells no inode", str(path))
    return Described(fd, int(found[1]), int(found[2]))

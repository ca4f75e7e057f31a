"""Access to the segment file of another user's job, through the process that writes it.

The file is for the job's user alone, and the service has no right to read every user's files. But the writer holds
it open as long as it lives, and a process that may ptrace may duplicate the descriptor (kernel/segment_search.py). That
search is made by the worker of the file's user, and the duplicate is read like a file of our own: believed only after
its checks (segment_file.py).

A file that no process with its name holds open is not looked for again: every user can put one there, and looking has
its price.
"""

import re
from pathlib import Path

from hostd.kernel.calls import NotAnswered, perform
from hostd.kernel.pidfd import SocketGone
from nccl_shim.segment.segment_file import open_own

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
            named = _NAME.fullmatch(path.name)
            if (wanted.st_dev, wanted.st_ino) in self._refused or named is None:
                raise
            pid, start_ticks = int(named[1]), int(named[2])
            [answer] = perform([("open", ~wanted.st_uid, pid, start_ticks, wanted.st_dev, wanted.st_ino)])
            if isinstance(answer, NotAnswered):
                raise answer from None  # it is asked for again
            if isinstance(answer, (SocketGone, OSError)):
                if len(self._refused) >= _MOST_REFUSED:
                    self._refused.clear()
                self._refused.add((wanted.st_dev, wanted.st_ino))
                raise
            return int(answer)

"""Jobs without the shim: which processes they have, as the operator said.

Nothing is guessed. A process belongs to a job of the list when its command line or its control group fits the pattern
there (as in a shell: * and ?), or when it is the process named; a process with the shim is seen through it instead.
Reading /proc of every process takes its time, so it is done every few seconds, and only where there is a list.
"""

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class JobWithoutShim:
    """An entry of the list; exactly one of the three says which processes belong to it."""

    job: str
    command: str | None = None  # pattern of the whole command line
    cgroup: str | None = None  # pattern of the control group's path
    pid: int | None = None

    def owns(self, pid: int) -> bool:
        """Raises OSError when the process has ended."""
        if self.command is not None:
            words = (_PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
            return fnmatchcase(words.decode(errors="replace"), self.command)
        if self.cgroup is not None:
            lines = (_PROC / str(pid) / "cgroup").read_text(errors="replace").splitlines()
            return any(fnmatchcase(line.split(":", 2)[-1], self.cgroup) for line in lines)
        return pid == self.pid


def processes_of(jobs: Iterable[JobWithoutShim], besides: Iterable[int] = ()) -> dict[str, set[int]]:
    """The processes of each job that has any; never among them are hostd, `besides`, and what those started (a data
    loader's processes, which have their sockets as well)."""
    seen = {*besides}
    found: dict[str, set[int]] = {}
    for pid in {int(name) for name in os.listdir(_PROC) if name.isdecimal()} - {os.getpid()}:  # noqa: PTH208
        for job in jobs:
            try:
                if job.owns(pid):
                    if not _stems_from(seen, pid):
                        found.setdefault(job.job, set()).add(pid)
                    break
            except OSError:
                break  # it has ended
    return found


def _stems_from(ancestors: Container[int], pid: int) -> bool:
    """Whether the process is one of these or was started by them, as far as hostd may see."""
    with suppress(OSError):
        while pid > 0:
            if pid in ancestors:
                return True
            pid = int((_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    return False

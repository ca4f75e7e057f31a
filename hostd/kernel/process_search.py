"""Processes by command line, control group or pid: reads /proc of every process of the host.

A command line is read from the process's own memory, which may keep the reader waiting (calls.py).
"""

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

_PROC = Path("/proc")
Pattern = tuple[str, str | None, str | None, int | None]  # a job's name; exactly one of command, cgroup and pid


def search(patterns: Iterable[Pattern], besides: Iterable[int], never: Iterable[int]) -> dict[str, list[int]]:
    """The processes of each job that has any; not `never`, nor `besides` and what those started."""
    seen, excluded = {*besides}, {*never, os.getpid()}
    found: dict[str, list[int]] = {}
    for pid in {int(name) for name in os.listdir(_PROC) if name.isdecimal()} - excluded:  # noqa: PTH208
        for pattern in patterns:
            try:
                if _fits(pid, pattern):
                    if not _stems_from(seen, pid):
                        found.setdefault(pattern[0], []).append(pid)
                    break
            except OSError:
                break  # it has ended
    return found


def _fits(pid: int, pattern: Pattern) -> bool:
    """Raises OSError when the process has ended."""
    _, command, cgroup, wanted = pattern
    if command is not None:
        words = (_PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
        return fnmatchcase(words.decode(errors="replace"), command)
    if cgroup is not None:
        lines = (_PROC / str(pid) / "cgroup").read_text(errors="replace").splitlines()
        return any(fnmatchcase(line.split(":", 2)[-1], cgroup) for line in lines)
    return pid == wanted


def _stems_from(ancestors: Container[int], pid: int) -> bool:
    """Whether the process is one of these or was started by them, as far as hostd may see."""
    with suppress(OSError):
        while pid > 0:
            if pid in ancestors:
                return True
            pid = int((_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    return False

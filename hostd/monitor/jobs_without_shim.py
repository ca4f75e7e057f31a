"""Jobs without the shim: which processes they have, as the operator said.

Nothing is guessed. A process belongs to a job of the list when its command line or its control group fits the pattern
there (as in a shell: * and ?), or when it is the process named; a process with the shim is seen through it instead.
Reading /proc of every process takes its time, so it is done every few seconds, by a worker, and only where there is a
list.
"""

import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from hostd.kernel.calls import EVERY_USER, PATIENT_S, perform


@dataclass(frozen=True, slots=True)
class JobWithoutShim:
    """An entry of the list; exactly one of the three says which processes belong to it."""

    job: str
    command: str | None = None  # pattern of the whole command line
    cgroup: str | None = None  # pattern of the control group's path
    pid: int | None = None


def processes_of(jobs: Iterable[JobWithoutShim], besides: Iterable[int] = ()) -> dict[str, set[int]]:
    """The processes of each job that has any; never among them are hostd, `besides`, and what those started (a data
    loader's processes, which have their sockets as well). Raises NotAnswered: ask again."""
    patterns = tuple(astuple(job) for job in jobs)
    [answer] = perform([("search", EVERY_USER, patterns, tuple(sorted(besides)), (os.getpid(),))], PATIENT_S)
    if isinstance(answer, Exception):
        raise answer
    return {job: set(pids) for job, pids in answer.items()}

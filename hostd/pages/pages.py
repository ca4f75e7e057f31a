"""The pages of registered processes. Law: each is hostd's own file, which one user may read and which a process finds
by its pid and start time; the kernel's word on both, so that no process has another's page.

    registered ──▶ told something by a backend: a file ──▶ heartbeat every slot ──▶ removed: the process or hostd ended

Nothing here touches an object of a job: files are in a directory of hostd's, and a process is looked up in /proc. There
is no file before there is something to say: a crowd that registers and leaves would cost hostd 2 ms each where the
directory is on a disk. A page that cannot be made or written is none, and its process is as if hostd were not there.
What a killed hostd left is old after five slots for its readers, and removed by the next one.
"""

import logging
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from hostd.registration.registrations import Ended, Registered
from nccl_shim.page.layout import Entry, page_name
from nccl_shim.page.writer import PageWriter
from nccl_shim.segment.liveness import start_ticks
from paceline.service.log_rate_limit import LogRateLimit

_log = logging.getLogger(__name__)

DIRECTORY_MODE = 0o711  # whose pages there are is told to no user


class JobsOnHost(Protocol):
    """What is known of jobs, by name, that a page does not say."""

    def processes_of(self, name: str) -> Iterable[int]: ...

    def peers_of(self, name: str, target: str) -> frozenset[tuple[int, str]]:
        """Processes whose net plugin sends to that host, and to which address."""

    def has_sockets(self, name: str) -> bool:
        """That carry its data."""

    def is_live(self, name: str) -> bool:
        """Bytes of it wait to be sent."""


class _NoJobs:
    def processes_of(self, name: str) -> Iterable[int]:
        return ()

    def peers_of(self, name: str, target: str) -> frozenset[tuple[int, str]]:
        return frozenset()

    def has_sockets(self, name: str) -> bool:
        return False

    def is_live(self, name: str) -> bool:
        return False


class _Process:
    def __init__(self, one: Registered) -> None:
        self.started, self.uid = one.started, one.uid
        self.names = {one.name}  # of its registrations
        self.page: PageWriter | None = None


class Pages:
    def __init__(self, directory: Path, slot_ns: int) -> None:
        """Removes what a predecessor left; the directory is made with the first page."""
        self.directory, self.slot_ns = directory, slot_ns
        self.jobs: JobsOnHost = _NoJobs()  # the monitor's word
        self._processes: dict[int, _Process] = {}  # by pid as hostd knows it
        self._pid_of: dict[str, int] = {}  # by the registration's name
        self._log_limit = LogRateLimit()
        self._remove_old()

    def __contains__(self, pid: int) -> bool:
        """Whether the process can be told anything."""
        return pid in self._processes

    def note(self, what: Registered | Ended) -> None:
        """A process has registered, or a registration has ended."""
        if isinstance(what, Registered):
            known = self._processes.get(what.pid)
            if known is not None and known.started == what.started:
                known.names.add(what.name)
            else:
                self._remove(what.pid)  # an earlier process of that pid
                self._processes[what.pid] = _Process(what)
            self._pid_of[what.name] = what.pid
        elif (pid := self._pid_of.pop(what.name, None)) is not None:
            names = self._processes[pid].names
            names.discard(what.name)
            if not names:
                self._remove(pid)

    def write(self, pid: int, entries: Sequence[Entry]) -> bool:
        """What the process is told from now on; whether it can be."""
        process = self._processes.get(pid)
        if process is None:
            return False
        try:
            if process.page is None and entries:
                process.page = self._make(pid, process)
            if process.page is not None:
                process.page.write(entries)
        except OSError as error:
            self._cannot(pid, error)
            return False
        return True

    def beat(self) -> None:
        """Once per slot: readers hear that hostd lives."""
        now_ns = time.monotonic_ns()
        for pid, process in [*self._processes.items()]:
            if process.page is not None:
                try:
                    process.page.beat(now_ns)
                except OSError as error:
                    self._cannot(pid, error)

    def remove_ended(self) -> None:
        """About once a second: a registrar that was killed tells of no end."""
        with_page = {pid: process.started for pid, process in self._processes.items() if process.page is not None}
        for pid, started in with_page.items():
            if start_ticks(pid) != started:
                self._remove(pid)

    def close(self) -> None:
        for pid in [*self._processes]:
            self._remove(pid)
        with suppress(OSError):  # there is none, or it has been put to another use
            self.directory.rmdir()

    def _make(self, pid: int, process: _Process) -> PageWriter:
        """Raises OSError."""
        self._make_directory()
        own_pid = pid_within(pid)
        # Two containers may have processes with one pid that started at one time: the first has the page.
        if (self.directory / page_name(own_pid, process.started)).exists():
            raise FileExistsError(f"another process knows itself by {own_pid}, too")
        return PageWriter(self.directory, own_pid, process.started, self.slot_ns, process.uid)

    def _remove(self, pid: int) -> None:
        process = self._processes.pop(pid, None)
        if process is None:
            return
        for name in process.names:
            del self._pid_of[name]
        if process.page is not None:
            with suppress(OSError):
                process.page.close()

    def _make_directory(self) -> None:
        """Raises OSError; also where the directory is another user's, which could put anything there."""
        self.directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        if self.directory.stat().st_uid != os.geteuid():
            raise PermissionError(f"{self.directory} is another user's")
        self.directory.chmod(DIRECTORY_MODE)

    def _remove_old(self) -> None:
        with suppress(OSError):
            for path in [*self.directory.iterdir()]:
                if ".page" in path.name:
                    path.unlink(missing_ok=True)

    def _cannot(self, pid: int, error: OSError) -> None:
        """It is told nothing any more."""
        self._remove(pid)
        self._log_limit.log(_log, logging.WARNING, "page", "no page for process %d, which is not held: %s", pid, error)


def pid_within(pid: int) -> int:
    """The pid by which the process knows itself, in its own namespace; raises OSError."""
    for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return pid

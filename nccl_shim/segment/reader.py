"""The daemon's view of every job on its host. Law: `poll` reports what is true now and changes nothing.

with Reader() as reader:
    for process in reader.poll():
        process.snapshot.job, process.iteration_enqueued_bytes, process.learned
    reader.reap()
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Container
from pathlib import Path
from typing import NamedTuple

from nccl_shim.segment.identity import identity_from_env
from nccl_shim.segment.layout import FILE_SUFFIX, RECORD_COUNT, Kind
from nccl_shim.segment.learning import IterationLearner, Learned
from nccl_shim.segment.reading_time import ReadingTime
from nccl_shim.segment.segment_file import NotTheirs, SegmentFile, check, open_own
from nccl_shim.segment.segment_memory import SegmentMemory
from nccl_shim.segment.snapshot import MOST_ITERATIONS, IterationCounter, NotASegment, ProcessSnapshot
from nccl_shim.segment.waiting import WaitingEstimate

MOST_FILES = 512  # of one user: each holds a descriptor
MOST_OF_PROCESS = 8
LEAST_FILES = 64  # in a poll, even if it has no time
MOST_REFUSED = 64  # of one user in a pass: more are not looked at
MOST_RECORDS = 16 * RECORD_COUNT  # of one user: each takes half a kilobyte of the reader's memory
KEPT_IMPOSTORS = 1024
MOST_COUNT = 2**63 - 1  # of anything: bytes, nanoseconds
DISTRUST_NS = 1_000_000_000  # after its last bad number a process is believed again


class BadNumbers(NotASegment):
    """It counts what cannot be, or did a moment ago."""


class ProcessView(NamedTuple):
    """A process, what it does now and what it is known to do."""

    snapshot: ProcessSnapshot
    uid: int  # the file's owner; in a user namespace the process knows itself by another
    host_pid: int | None  # None: dead, or in a pid namespace that cannot be seen from here
    alive: bool
    age_ns: int  # since its last event
    waiting_bytes: int | None  # enqueued and not yet sent; None where the reader does not estimate it
    iteration_enqueued_bytes: int  # in the current iteration
    iteration_sent_bytes: int  # in the current iteration
    learned: Learned | None
    registered: bool = False  # memory that hostd is handed, instead of a file


class _TrackedFile:
    """A file and what was learned from it."""

    def __init__(self, file: SegmentFile, estimate_waiting: bool) -> None:
        self.file = file
        self._learner = IterationLearner()
        self._waiting = WaitingEstimate() if estimate_waiting else None
        self._counter: IterationCounter | None = None
        self._heartbeat = b""
        self.alive = True
        self.distrusted = ""  # why
        self._bad_ns = 0  # when it was last seen to count what cannot be

    def changed(self) -> bool:
        """Whether the process had an event since it was last read."""
        try:
            return self.file.heartbeat() != self._heartbeat
        except OSError:
            return True  # reading it will say why

    def view(self, now_ns: int, check_alive: bool, most_records: int) -> ProcessView:
        if check_alive:
            self.alive = self.file.is_alive()
        # Before the counters: what comes between is seen next time.
        self._heartbeat = self.file.heartbeat()
        snapshot = self.file.read(most_records)
        self._require_sense(snapshot, now_ns)
        if snapshot.iteration_counter is not None:
            self._counter = snapshot.iteration_counter
            self._learner.observe(snapshot.iteration_counter)
        counter = self._counter  # while a writer is off the CPU in the middle of storing it, the value before holds
        learned = self._learner.learned
        enqueued_bytes, tx_bytes = snapshot.enqueued_bytes, snapshot.tx_bytes
        return ProcessView(
            snapshot=snapshot,
            uid=self.file.uid,
            host_pid=self.file.host_pid,
            alive=self.alive,
            age_ns=max(0, now_ns - snapshot.heartbeat_ns),
            waiting_bytes=None if self._waiting is None else _waiting_bytes(self._waiting, snapshot, learned),
            iteration_enqueued_bytes=enqueued_bytes - (counter.enqueued_at_start if counter else 0),
            iteration_sent_bytes=tx_bytes - (counter.tx_at_start if counter else 0),
            learned=learned,
            registered=isinstance(self.file, SegmentMemory),
        )

    def _require_sense(self, snapshot: ProcessSnapshot, now_ns: int) -> None:
        """What a job writes into its own file must not become another job's wrong number, or the end of a daemon."""
        if snapshot.job != self.file.job:
            raise NotASegment(f"was of the job {self.file.job}, and is of another")
        if why := _nonsense(snapshot):
            self.distrusted, self._bad_ns = why, now_ns
        if self.distrusted and now_ns - self._bad_ns < DISTRUST_NS:
            raise BadNumbers(self.distrusted)
        self.distrusted = ""


def _waiting_bytes(estimate: WaitingEstimate, snapshot: ProcessSnapshot, learned: Learned | None) -> int:
    measured = any(flow.kind is Kind.PROXY for flow in snapshot.flows)
    return estimate.update(snapshot.enqueued_bytes, snapshot.expected_tx_bytes, snapshot.tx_bytes, measured, learned)


def _nonsense(snapshot: ProcessSnapshot) -> str:
    """What it counts that cannot be."""
    counter = snapshot.iteration_counter
    if max(snapshot.enqueued_bytes, snapshot.expected_tx_bytes, snapshot.tx_bytes, *(counter or ())) > MOST_COUNT:
        return "counts more than there can be"
    if counter is not None and counter.iteration > MOST_ITERATIONS:
        return f"counts {counter.iteration} iterations, expected at most {MOST_ITERATIONS}"
    return ""


class _Pass:
    """Over the directory; it may take several polls. Law: what one user puts there costs a bounded part of it."""

    def __init__(self, directory: Path, files_of: Counter[int]) -> None:
        self.entries = os.scandir(directory)
        self.found: set[str] = set()
        self.files_of = files_of  # by uid
        self._refused: dict[str, str] = {}
        self._refused_of: Counter[int] = Counter()

    def has_enough(self, uid: int) -> bool:
        return self._refused_of[uid] >= MOST_REFUSED

    def refuse(self, uid: int, name: str, why: str) -> None:
        if not self.has_enough(uid):
            self._refused[name] = why
        self._refused_of[uid] += 1

    def refused(self) -> dict[str, str]:
        more = {uid: count - MOST_REFUSED for uid, count in self._refused_of.items() if count > MOST_REFUSED}
        return self._refused | {f"of uid {uid}": f"{count} more files, not looked at" for uid, count in more.items()}


class Reader:
    """Keeps files open and their rhythm learned from poll to poll."""

    def __init__(
        self,
        directory: Path | None = None,
        open_file: Callable[[Path], int] = open_own,
        estimate_waiting: bool = False,
        budget_s: float = math.inf,
    ) -> None:
        """`budget_s`: how long a poll may look for new files; those that are known are read in any case."""
        self.directory = directory or identity_from_env().directory
        self._budget_s = budget_s
        self._pass: _Pass | None = None
        self._open_file, self._estimate_waiting = open_file, estimate_waiting
        self.refused: dict[str, str] = {}  # file name → why it is not believed
        self.bad_numbers = 0  # readings with numbers that cannot be
        self._tracked: dict[str, _TrackedFile] = {}
        self._in_directory: set[str] = set()  # of these; the rest were handed over
        self._no_longer_believed: dict[str, str] = {}  # of those that were handed over
        self._changed_ns = 0  # the directory, when it was last read
        self._records_of: Counter[int] = Counter()  # claimed in segments that are followed, by uid
        self._time = ReadingTime()
        self._impostors: dict[tuple[int, int, int], str] = {}  # why, by device, inode and time of its last change

    def poll_changed(self, wanted: Container[int | None]) -> list[ProcessView]:
        """Of the processes that are wanted, by pid, those with an event since they were last read. New and dead ones
        are for `poll`."""
        views = []
        for name, one in list(self._tracked.items()):
            uid, now_ns = one.file.uid, time.monotonic_ns()
            if one.file.host_pid in wanted and one.changed() and self._time.is_left(uid, now_ns):
                began_ns = time.thread_time_ns()
                views += self._views(name, one, now_ns, check_alive=False)
                self._time.spent(uid, time.thread_time_ns() - began_ns, now_ns)
        return views

    def _views(self, name: str, one: _TrackedFile, now_ns: int, check_alive: bool) -> list[ProcessView]:
        """Its one view, or none of what is not believed."""
        uid, before = one.file.uid, one.file.claimed
        views: list[ProcessView] = []
        why: Exception | None = None
        try:
            views.append(one.view(now_ns, check_alive, before + MOST_RECORDS - self._records_of[uid]))
        except (NotASegment, OSError) as error:
            why = error
        self._records_of[uid] += one.file.claimed - before
        if why is not None:
            self._refuse(name, why)
        return views

    def stale(self) -> bool:
        """Whether files came or went since the last poll, or not all were looked at; a coarse clock may hide some."""
        try:
            return self._pass is not None or self.directory.stat().st_mtime_ns != self._changed_ns
        except OSError:
            return False

    def follow(self) -> bool:
        """Looks for files for as long as a poll may; whether one came or went that counts."""
        before = set(self._in_directory)
        self._follow_directory()
        return before != self._in_directory

    def poll(self, now_ns: int | None = None) -> list[ProcessView]:
        """Every process with a believable file, dead ones included until reaped; by job, rank and pid."""
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        self._follow_directory()
        views = []
        for name, one in list(self._tracked.items()):
            if seen := self._views(name, one, now_ns, check_alive=True):
                views += seen
                self.refused.pop(name, None)  # it is believed again
        return sorted(views, key=lambda v: (v.snapshot.job, v.snapshot.global_rank, v.snapshot.pid))

    def reap(self) -> list[str]:
        """Removes the files of dead processes; returns their names. Poll first if the last counts matter."""
        self._follow_directory()
        reaped = []
        for name, tracked in list(self._tracked.items()):
            if tracked.file.is_alive():
                continue
            try:
                if name in self._in_directory:
                    (self.directory / name).unlink(missing_ok=True)
            except OSError as error:
                self.refused[name] = f"cannot remove: {error}"
            else:
                reaped.append(name)
            self._drop(name)
        return reaped

    def forget(self, name: str) -> None:
        """A segment that was handed over is there no longer."""
        self._no_longer_believed.pop(name, None)
        if name in self._tracked:
            self._drop(name)

    def __contains__(self, name: str) -> bool:
        return name in self._tracked

    @property
    def files(self) -> list[str]:
        """The jobs whose counters are files in the directory, instead of memory that was handed over."""
        return [self._tracked[name].file.job for name in self._in_directory]

    def close(self) -> None:
        if self._pass is not None:
            self._pass.entries.close()
        for name in list(self._tracked):
            self._drop(name)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _follow_directory(self) -> None:
        """Goes on with its pass over the directory, which every user can fill, for as long as it has time."""
        until_s = time.monotonic() + self._budget_s
        try:
            if self._pass is None:
                self._changed_ns = self.directory.stat().st_mtime_ns
                files_of = Counter(self._tracked[name].file.uid for name in self._in_directory)
                self._pass = _Pass(self.directory, files_of)
            for number, entry in enumerate(self._pass.entries):
                has_opened = entry.name.endswith(FILE_SUFFIX) and self._consider(self._pass, entry.name)
                if (has_opened or number >= LEAST_FILES) and time.monotonic() >= until_s:
                    return  # the rest the next time
        except FileNotFoundError:
            for name in list(self._in_directory):
                self._drop(name)
            self.refused = dict(self._no_longer_believed)
            return
        except OSError:
            return  # no descriptor left, say: what is known is better than nothing
        over, self._pass = self._pass, None
        over.entries.close()
        for gone in self._in_directory - over.found:
            self._drop(gone)
        distrusted = {name: one.distrusted for name, one in self._tracked.items() if one.distrusted}
        self.refused = over.refused() | self._no_longer_believed | distrusted

    def _consider(self, current: _Pass, name: str) -> bool:
        """Whether it was opened, which may have taken a search for its writer."""
        if name in self._tracked:
            current.found.add(name)
            return False
        try:
            info = (self.directory / name).lstat()
        except OSError:
            return False  # it has gone
        identity, opens = (info.st_dev, info.st_ino, info.st_ctime_ns), False
        try:
            if current.files_of[info.st_uid] >= MOST_FILES:
                raise NotASegment(f"one of more than {MOST_FILES} files of uid {info.st_uid}")
            if current.has_enough(info.st_uid):
                raise NotASegment("not looked at")
            check(info)  # what cannot be a segment is not opened: that may need a search for its writer
            if identity in self._impostors:
                raise NotASegment(self._impostors[identity])
            opens = True
            self.admit(name, SegmentFile(self.directory / name, self._open_file))
            self._in_directory.add(name)
            current.files_of[info.st_uid] += 1
            current.found.add(name)
        except (NotASegment, OSError) as error:
            current.refuse(info.st_uid, name, str(error))
            if len(self.refused) < MOST_REFUSED:
                self.refused[name] = str(error)
            if isinstance(error, NotTheirs):
                if len(self._impostors) >= KEPT_IMPOSTORS:
                    self._impostors.clear()
                self._impostors[identity] = str(error)
        return opens

    def admit(self, name: str, segment: SegmentFile) -> None:
        """Takes a segment, and closes it if it raises NotASegment."""
        tracked = _TrackedFile(segment, self._estimate_waiting)
        pid = tracked.file.host_pid
        if pid is not None and sum(one.file.host_pid == pid for one in self._tracked.values()) >= MOST_OF_PROCESS:
            tracked.file.close()
            raise NotASegment(f"one of more than {MOST_OF_PROCESS} files of process {pid}")
        self._tracked[name] = tracked
        self.refused.pop(name, None)

    def _refuse(self, name: str, why: Exception) -> None:
        """Bad numbers cost a process this reading and those of the next moments, anything else is for good."""
        if isinstance(why, BadNumbers) and self._tracked[name].alive:
            self.bad_numbers += 1
            self.refused[name] = str(why)
            return
        if name not in self._in_directory and len(self._no_longer_believed) < MOST_REFUSED:
            self._no_longer_believed[name] = str(why)
        self._drop(name)
        self.refused[name] = str(why)

    def _drop(self, name: str) -> None:
        self._in_directory.discard(name)
        dropped = self._tracked.pop(name).file
        self._records_of[dropped.uid] -= dropped.claimed
        dropped.close()

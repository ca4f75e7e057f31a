"""The daemon's view of every job on its host. Law: `poll` reports what is true now and changes nothing.

with Reader() as reader:
    for process in reader.poll():
        process.snapshot.job, process.iteration_enqueued_bytes, process.learned
    reader.reap()
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Container
from pathlib import Path
from typing import NamedTuple

from nccl_shim.segment.identity import identity_from_env
from nccl_shim.segment.layout import FILE_SUFFIX, Kind
from nccl_shim.segment.learning import IterationLearner, Learned
from nccl_shim.segment.segment_file import SegmentFile, open_own
from nccl_shim.segment.snapshot import IterationCounter, NotASegment, ProcessSnapshot
from nccl_shim.segment.waiting import WaitingEstimate

# A hundred a second for eleven days. Callers multiply it by the bytes of an iteration, up to an exabyte.
MOST_ITERATIONS = 10**8
MOST_FILES = 512  # of one user: each holds a descriptor
MOST_COUNT = 2**63 - 1  # of anything: bytes, nanoseconds


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


class _TrackedFile:
    """A file and what was learned from it."""

    def __init__(self, path: Path, open_file: Callable[[Path], int], estimate_waiting: bool) -> None:
        self.file = SegmentFile(path, open_file)
        if not (self.file.job.strip() and self.file.job.isprintable()):  # the switch takes no other name
            self.file.close()
            raise NotASegment(f"names the job {self.file.job!a}, expected a printable name")
        self._learner = IterationLearner()
        self._waiting = WaitingEstimate() if estimate_waiting else None
        self._counter: IterationCounter | None = None
        self._heartbeat = b""
        self._alive = True

    def changed(self) -> bool:
        """Whether the process had an event since it was last read."""
        try:
            return self.file.heartbeat() != self._heartbeat
        except OSError:
            return True  # reading it will say why

    def view(self, now_ns: int, check_alive: bool) -> ProcessView:
        if check_alive:
            self._alive = self.file.is_alive()
        # Before the counters: what comes between is seen next time.
        self._heartbeat = self.file.heartbeat()
        snapshot = self.file.read()
        _refuse_nonsense(snapshot, self.file.job)
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
            alive=self._alive,
            age_ns=max(0, now_ns - snapshot.heartbeat_ns),
            waiting_bytes=None if self._waiting is None else _waiting_bytes(self._waiting, snapshot, learned),
            iteration_enqueued_bytes=enqueued_bytes - (counter.enqueued_at_start if counter else 0),
            iteration_sent_bytes=tx_bytes - (counter.tx_at_start if counter else 0),
            learned=learned,
        )


def _waiting_bytes(estimate: WaitingEstimate, snapshot: ProcessSnapshot, learned: Learned | None) -> int:
    measured = any(flow.kind is Kind.PROXY for flow in snapshot.flows)
    return estimate.update(snapshot.enqueued_bytes, snapshot.expected_tx_bytes, snapshot.tx_bytes, measured, learned)


def _refuse_nonsense(snapshot: ProcessSnapshot, job: str) -> None:
    """What a job writes into its own file must not become another job's wrong number, or the end of a daemon."""
    if snapshot.job != job:
        raise NotASegment(f"was of the job {job}, and is of another")
    counter = snapshot.iteration_counter
    if max(snapshot.enqueued_bytes, snapshot.expected_tx_bytes, snapshot.tx_bytes, *(counter or ())) > MOST_COUNT:
        raise NotASegment("counts more than there can be")
    if counter is not None and counter.iteration > MOST_ITERATIONS:
        raise NotASegment(f"counts {counter.iteration} iterations, expected at most {MOST_ITERATIONS}")


class Reader:
    """Keeps files open and their rhythm learned from poll to poll."""

    def __init__(
        self,
        directory: Path | None = None,
        open_file: Callable[[Path], int] = open_own,
        estimate_waiting: bool = False,
    ) -> None:
        self.directory = directory or identity_from_env().directory
        self._open_file, self._estimate_waiting = open_file, estimate_waiting
        self.refused: dict[str, str] = {}  # file name → why it is not believed
        self._tracked: dict[str, _TrackedFile] = {}
        self._changed_ns = 0  # the directory, when it was last read

    def poll_changed(self, jobs: Container[str]) -> list[ProcessView]:
        """Of these jobs, the processes with an event since they were last read. New and dead ones are for `poll`."""
        views = []
        for name, one in list(self._tracked.items()):
            if one.file.job in jobs and one.changed():
                try:
                    views.append(one.view(time.monotonic_ns(), check_alive=False))
                except (NotASegment, OSError) as error:
                    self._refuse(name, error)
        return views

    def stale(self) -> bool:
        """Whether files came or went since the last poll; a coarse clock may hide some."""
        try:
            return self.directory.stat().st_mtime_ns != self._changed_ns
        except OSError:
            return False

    def poll(self, now_ns: int | None = None) -> list[ProcessView]:
        """Every process with a believable file, dead ones included until reaped; by job, rank and pid."""
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        self._follow_directory()
        views = []
        for name, one in list(self._tracked.items()):
            try:
                views.append(one.view(now_ns, check_alive=True))
            except (NotASegment, OSError) as error:
                self._refuse(name, error)
        return sorted(views, key=lambda v: (v.snapshot.job, v.snapshot.global_rank, v.snapshot.pid))

    def reap(self) -> list[str]:
        """Removes the files of dead processes; returns their names. Poll first if the last counts matter."""
        self._follow_directory()
        reaped = []
        for name, tracked in list(self._tracked.items()):
            if tracked.file.is_alive():
                continue
            try:
                (self.directory / name).unlink(missing_ok=True)
            except OSError as error:
                self.refused[name] = f"cannot remove: {error}"
            else:
                reaped.append(name)
            self._drop(name)
        return reaped

    def close(self) -> None:
        for name in list(self._tracked):
            self._drop(name)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _follow_directory(self) -> None:
        try:
            self._changed_ns = self.directory.stat().st_mtime_ns
            with os.scandir(self.directory) as entries:
                names = {entry.name for entry in entries if entry.name.endswith(FILE_SUFFIX)}
        except FileNotFoundError:
            names = set()
        except OSError:
            return  # no descriptor left, say: what is known is better than nothing
        for gone in self._tracked.keys() - names:
            self._drop(gone)
        self.refused = {name: why for name, why in self.refused.items() if name in names}
        files_of = Counter(one.file.uid for one in self._tracked.values())
        for name in sorted(names - self._tracked.keys()):
            try:
                uid = (self.directory / name).lstat().st_uid
                if files_of[uid] >= MOST_FILES:
                    raise NotASegment(f"one of more than {MOST_FILES} files of uid {uid}")
                self._tracked[name] = _TrackedFile(self.directory / name, self._open_file, self._estimate_waiting)
                files_of[uid] += 1
                self.refused.pop(name, None)
            except (NotASegment, OSError) as error:
                self.refused[name] = str(error)

    def _refuse(self, name: str, why: Exception) -> None:
        self._drop(name)
        self.refused[name] = str(why)

    def _drop(self, name: str) -> None:
        self._tracked.pop(name).file.close()

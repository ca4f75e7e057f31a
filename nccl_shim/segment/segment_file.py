"""An open segment file. Law: a hostile or broken file can be refused, never crash the reader.

Files are read with pread, not mapped: the owner of a file may truncate it at any time, and touching a mapped
page past its end would kill a daemon that serves all users. The kernel copies aligned words whole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from nccl_shim.segment import layout
from nccl_shim.segment.layout import Header
from nccl_shim.segment.liveness import host_pid, is_alive, owner_of, start_ticks
from nccl_shim.segment.snapshot import (
    NotASegment,
    ProcessSnapshot,
    parse_flows,
    parse_header,
    parse_iteration_counter,
    snapshot_of,
)

_TORN_ATTEMPTS = 32
_HEARTBEAT = Header.heartbeat_ns


def open_own(path: Path) -> int:
    """For reading; raises OSError."""
    # NONBLOCK: a fifo by that name must not hang the daemon.
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


class NotTheirs(NotASegment):
    """It is of one user, and claims to be of another's process."""


class SegmentFile:
    """One file; `read()` as often as wanted, `close()` at the end."""

    def __init__(self, path: Path, open_file: Callable[[Path], int] = open_own) -> None:
        """Opens and checks; raises OSError or NotASegment."""
        self.path = path
        self._file = open_file(path)
        try:
            self.uid = self._check_file()
            header = parse_header(self._bytes(layout.HEADER_BYTES))
            self.job = checked_name(header.job)  # before its writer is searched for, which costs more
            self.claimed = 0
            self._writer: tuple[int, int, int] = (header.pid, header.pid_start_ticks, header.pid_namespace)
            self.host_pid = host_pid(*self._writer)
            owner = self.uid if self.host_pid is None else owner_of(self.host_pid)
            if owner not in (None, self.uid):
                raise NotTheirs(f"claims pid {header.pid}, which belongs to uid {owner}, not {self.uid}")
        except BaseException:
            os.close(self._file)
            raise

    def heartbeat(self) -> bytes:
        """The time of the last event as it stands there: at most one system call, to see whether to `read`."""
        return self._bytes(_HEARTBEAT.size, _HEARTBEAT.offset)

    def read(self, most_records: int = layout.RECORD_COUNT) -> ProcessSnapshot:
        """The counters now; raises NotASegment when the file was cut, or has more records than it may."""
        claimed = self.claimed  # as many as the last time, or once more
        while True:
            raw = self._bytes(layout.HEADER_BYTES + claimed * layout.RECORD_BYTES)
            header = parse_header(raw)
            if header.records_claimed <= claimed or claimed == layout.RECORD_COUNT:
                break
            claimed = self.claimed = min(header.records_claimed, layout.RECORD_COUNT)
            if claimed > most_records:
                raise NotASegment(f"has {claimed} records, where its user's processes have left {most_records}")
        counter, attempts = parse_iteration_counter(header), 0
        while counter is None and attempts < _TORN_ATTEMPTS:
            attempts += 1
            counter = parse_iteration_counter(parse_header(self._bytes(layout.HEADER_BYTES)))
        return snapshot_of(header, counter, parse_flows(raw, claimed))

    def is_alive(self) -> bool:
        """Whether the writer still runs: by its pid where that is known, because a copy of its descriptor would hold
        its lock as well."""
        if self.host_pid is not None:
            return start_ticks(self.host_pid) == self._writer[1]
        return is_alive(self._file, *self._writer)

    def close(self) -> None:
        os.close(self._file)

    def _bytes(self, size: int, offset: int = 0) -> bytes:
        return os.pread(self._file, size, offset)

    def _check_file(self) -> int:
        info = os.fstat(self._file)
        check(info)
        return info.st_uid


def checked_name(job: str) -> str:
    """Raises NotASegment for a name that the switch does not take."""
    if not (job.strip() and job.isprintable() and "/" not in job):
        raise NotASegment(f"names the job {job!a}, expected a printable name without /")
    return job


def check(info: os.stat_result) -> None:
    """Raises NotASegment for a file that cannot be one."""
    if not stat.S_ISREG(info.st_mode):
        raise NotASegment("not a regular file")
    if info.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise NotASegment(f"mode {stat.S_IMODE(info.st_mode):04o} lets other users in")
    if info.st_size < layout.FILE_BYTES:
        raise NotASegment(f"{info.st_size} bytes, expected {layout.FILE_BYTES}")

"""A writer without the C library. Law: every shared word is stored whole, and never goes down.

It counts into memory that hostd is handed (registration.py), or into a file where no hostd listens.

Stores go through a memoryview of native u64 items, which CPython copies as one machine word; struct.pack_into
copies byte by byte and readers see halves. Adding is read-then-write, so one lock inside the process orders
its threads. There are no memory barriers here: the check word guards the iteration counter, and a record is
published only after a lock was taken and released, which is a barrier in practice.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
import socket
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

from nccl_shim.segment import layout
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.layout import Header, Kind, Record, Source
from nccl_shim.segment.liveness import own_pid_namespace, start_ticks
from nccl_shim.segment.registration import Registration, connect, new_memory

_WORD = {name: getattr(Record, name).offset // 8 for name, *_ in Record._fields_}


class PythonWriter:
    """A Writer whose records are byte offsets in the segment."""

    def __init__(self, identity: Identity, registered: bool = False) -> None:
        """Creates a file; `registered`: memory for hostd's socket. Raises OSError with nothing left behind."""
        self._lock, self._barrier = threading.Lock(), threading.Lock()
        self._registration: Registration | None = None
        if registered:
            self._file, self._map = new_memory()
        else:
            self._file = _create_file(identity.directory)
            self._map = mmap.mmap(self._file, layout.FILE_BYTES)
        self._u64 = memoryview(self._map).cast("Q")
        self._u32 = memoryview(self._map).cast("I")
        self._records: dict[tuple[int, ...], int] = {}
        self._fill_header(identity)

    @classmethod
    def at_hostd(cls, identity: Identity, must: bool = False) -> PythonWriter:
        """Counts into memory that hostd is handed; raises OSError if no hostd listens, unless it `must` wait for it."""
        if identity.socket is None:
            raise FileNotFoundError("no socket of hostd")
        connection: socket.socket | None = None
        try:
            connection = connect(identity.socket)
        except BlockingIOError:
            pass  # hostd is there, and will be
        except OSError:
            if not must:
                raise
        try:
            writer = cls(identity, registered=True)
            writer._registration = Registration(identity.socket, writer._file, connection)
        except OSError:
            if connection is not None:
                connection.close()
            raise
        return writer

    def forget(self) -> None:
        """In a forked child: the segment is the parent's."""
        if self._registration is not None:
            self._registration.abandon()

    def find(self, kind: Kind, source: Source, comm_id: int, rank: int, nranks: int, peer: int) -> int | None:
        key = (kind, source, comm_id, rank, peer)
        with self._lock:
            if key in self._records:
                return self._records[key]
            claimed = self._u32[Header.records_claimed.offset // 4]
            if claimed == layout.RECORD_COUNT:
                self._u64[Header.dropped_records.offset // 8] += 1
                return layout.HEADER_BYTES if kind.outbound else None
            at = layout.HEADER_BYTES + claimed * layout.RECORD_BYTES
            self._store_identity(at, kind, source, comm_id, rank, nranks, peer)
            with self._barrier:
                pass
            self._u32[at // 4] = layout.PUBLISHED
            self._u32[Header.records_claimed.offset // 4] = claimed + 1
            self._records[key] = at
        return at

    def enqueue(self, record: int | None, size_bytes: int, expected_tx_bytes: int) -> None:
        self._add(
            record,
            "enqueued_ns",
            expected_tx_bytes=expected_tx_bytes,
            enqueued_bytes=size_bytes,
            enqueued_ops=1,
        )

    def transmit(self, record: int | None, tx_bytes: int, rx_bytes: int) -> None:
        self._add(
            record,
            "transmit_ns",
            tx_bytes=tx_bytes,
            tx_steps=int(tx_bytes > 0),
            rx_bytes=rx_bytes,
            rx_steps=int(rx_bytes > 0),
        )

    def end_iteration(self) -> int:
        return self._start_iteration(ended=1)

    def begin_iterations(self) -> None:
        if self._u64[Header.iteration.offset // 8 + 1] == 0:
            self._start_iteration(ended=0)

    def _start_iteration(self, ended: int) -> int:
        words, at = self._u64, Header.iteration.offset // 8
        with self._lock:
            now_ns = time.monotonic_ns()
            claimed = self._u32[Header.records_claimed.offset // 4]
            starts = [(layout.HEADER_BYTES + i * layout.RECORD_BYTES) // 8 for i in range(claimed)]
            enqueued = sum(words[s + _WORD["enqueued_bytes"]] for s in starts if self._u32[2 * s + 1] < Kind.RECV)
            tx = sum(words[s + _WORD["tx_bytes"]] for s in starts)
            seq, iteration, start_ns, enqueued_before, _, *last = words[at : at + 7]
            if ended:
                last = [enqueued - enqueued_before, now_ns - start_ns]
            new = (seq + 2, iteration + ended, now_ns, enqueued, tx, *last)
            words[at] = seq + 1
            for index, value in enumerate(new[1:], start=1):
                words[at + index] = value
            words[at + 7] = layout.check_word(new)
            words[at] = seq + 2
            words[Header.heartbeat_ns.offset // 8] = now_ns
        if self._registration is not None and now_ns >= self._registration.due_ns:
            self._registration.tend(now_ns)
        return iteration + ended

    def finish(self) -> None:
        self._u32[Header.flags.offset // 4] |= layout.FINISHED

    def _add(self, record: int | None, stamp: str, **amounts: int) -> None:
        if record is None:
            return
        now_ns, first = time.monotonic_ns(), record // 8
        with self._lock:
            for name, amount in amounts.items():
                self._u64[first + _WORD[name]] += amount
            self._u64[first + _WORD[stamp]] = now_ns
            self._u64[Header.heartbeat_ns.offset // 8] = now_ns
        if self._registration is not None and now_ns >= self._registration.due_ns:
            self._registration.tend(now_ns)

    def _store_identity(
        self, at: int, kind: Kind, source: Source, comm_id: int, rank: int, nranks: int, peer: int
    ) -> None:
        record = Record.from_buffer(self._map, at)
        record.kind, record.source, record.comm_id = kind, source, comm_id
        record.rank, record.nranks, record.peer = rank, nranks, peer

    def _fill_header(self, identity: Identity) -> None:
        header = Header.from_buffer(self._map)
        header.version, header.header_bytes = layout.VERSION, layout.HEADER_BYTES
        header.record_bytes, header.record_count = layout.RECORD_BYTES, layout.RECORD_COUNT
        header.role, header.writer, header.job = identity.role, layout.WRITER_PYTHON, identity.job_bytes
        header.pid, header.uid = os.getpid(), os.geteuid()
        header.pid_start_ticks = start_ticks(os.getpid()) or 0
        header.pid_namespace = own_pid_namespace()
        header.global_rank, header.world_size = identity.global_rank, identity.world_size
        header.local_rank, header.weight_milli = identity.local_rank, identity.weight_milli
        header.iterations = identity.iterations
        header.created_ns = header.heartbeat_ns = header.iteration.start_ns = time.monotonic_ns()
        header.iteration.check = layout.check_word((0, 0, header.created_ns, 0, 0, 0, 0))
        self._store_identity(layout.HEADER_BYTES, Kind.OVERFLOW, Source(1), 0, identity.global_rank, 0, -1)
        self._u32[layout.HEADER_BYTES // 4] = layout.PUBLISHED
        header.records_claimed = 1
        with self._barrier:
            pass
        self._u64[0] = layout.MAGIC


def make_directory(directory: Path) -> None:
    """For files of all users, unless it is there already; raises OSError."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
        directory.chmod(0o1777)


def _create_file(directory: Path) -> int:
    """A new file of the right size in `directory`; the same checks as csrc/segment.c."""
    make_directory(directory)
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        info = os.fstat(directory_fd)
        if info.st_uid not in (0, os.geteuid()) and not info.st_mode & stat.S_ISVTX:
            raise PermissionError(f"{directory} belongs to another user and is not sticky")
        limit_bytes = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit_bytes != resource.RLIM_INFINITY and limit_bytes < layout.FILE_BYTES:
            raise OSError("file size limit is too small")
        name, file = _open_unused(directory_fd)
        try:
            os.fchmod(file, 0o600)
            os.posix_fallocate(file, 0, layout.FILE_BYTES)
        except OSError:
            os.unlink(name, dir_fd=directory_fd)
            os.close(file)
            raise
    finally:
        os.close(directory_fd)
    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return file


def _open_unused(directory_fd: int) -> tuple[str, int]:
    for attempt in range(64):
        name = f"{os.getpid()}-{start_ticks(os.getpid())}-{attempt}{layout.FILE_SUFFIX}"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return name, os.open(name, flags, 0o600, dir_fd=directory_fd)
        except FileExistsError:
            continue
    raise FileExistsError("64 files of this process exist already")

"""The job's side of the page. Law: never raises, never waits; what cannot be read is open.

Read by `pread`, not mapped: touching a mapped page that hostd has cut would kill the job. A look costs one system call
while the entries stay as they are. A page that is not there, or whose hostd is gone, is opened anew after RETRY_NS: a
hostd that comes back makes a new file.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from nccl_shim.page.decision import OPEN, Answer, Header, answer, believed_entries, believed_header
from nccl_shim.page.layout import HEADER, Entry, bank_at, bank_bytes, page_directory, page_name
from nccl_shim.segment.liveness import start_ticks

RETRY_NS = 100_000_000


def own_page() -> Path:
    """This process's page: PACELINE_PAGE, else by pid and start time in the directory beside hostd's socket."""
    if named := os.environ.get("PACELINE_PAGE"):
        return Path(named)
    return page_directory(os.environ) / page_name(os.getpid(), start_ticks(os.getpid()) or 0)


def _identity(file: int) -> tuple[int, int]:
    info = os.fstat(file)
    return info.st_dev, info.st_ino


class PageReader:
    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file, self._pid, self._opened = -1, os.getpid(), (0, 0)
        self._retry_ns = 0
        self._sequence = -1  # of the entries below
        self._entries: dict[bytes, Entry] = {}

    def look(self, peer: bytes, now_ns: int | None = None) -> Answer:
        """What the page says of `peer` now."""
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        try:
            return self._look(peer, now_ns)
        except Exception:  # training goes on, whatever it was
            self.close()
            self._retry_ns = now_ns + RETRY_NS
            return OPEN

    def close(self) -> None:
        """Unless the program has closed it, and has opened another file by that number."""
        file, self._file, self._sequence = self._file, -1, -1
        if file >= 0:
            with contextlib.suppress(OSError):
                if _identity(file) == self._opened:
                    os.close(file)

    def _look(self, peer: bytes, now_ns: int) -> Answer:
        header = None
        if self._pid != os.getpid():  # a forked child's page is another one
            self.close()
            self._pid, self._retry_ns = os.getpid(), 0
        if self._file >= 0:
            header = believed_header(os.pread(self._file, HEADER.size, 0), now_ns)
        if header is None and now_ns >= self._retry_ns:
            self._retry_ns = now_ns + RETRY_NS
            self.close()
            # O_NONBLOCK: were it a pipe, opening would wait.
            self._file = os.open(self._path or own_page(), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            self._opened = _identity(self._file)
            header = believed_header(os.pread(self._file, HEADER.size, 0), now_ns)
        if header is None or not self._entries_of(header):
            return OPEN
        return answer(self._entries, peer, now_ns, header.slot_ns)

    def _entries_of(self, header: Header) -> bool:
        """Whether `self._entries` are those that the header names, read again where it names others."""
        if header.sequence == self._sequence:
            return True
        self._sequence, at = -1, bank_at(header.sequence, header.capacity)
        entries = believed_entries(os.pread(self._file, bank_bytes(header.capacity), at), header)
        if entries is None:
            return False
        self._sequence, self._entries = header.sequence, entries
        return True

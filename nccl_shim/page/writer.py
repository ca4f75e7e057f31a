"""hostd's side of the page. Law: a reader sees all of one state or all of another, and the file never shrinks.

    with PageWriter(directory, pid, start_ticks, slot_ns, uid) as page:
        page.write([Entry(peer_bytes("10.0.0.2"), State.RATE, rate=125e6)])       # when something changes
        page.beat(time.monotonic_ns())                                            # every slot

The file appears whole, under its name, readable by its process's user alone. Closing removes it: its readers are free
at once, as they are 5 slots after a writer that was killed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from nccl_shim.page.layout import (
    BANK_HEAD,
    DEFAULT_ENTRIES,
    ENTRY,
    HEADER,
    HEARTBEAT_AT,
    MAGIC,
    MOST_ENTRIES,
    SEQUENCE_AT,
    VERSION,
    Entry,
    bank_at,
    checksum,
    page_bytes,
    page_name,
)

# A POSIX ACL as the kernel takes it: version 2, then (tag, permissions, id) of owner, one user, group, mask, other.
ACL_HEAD, ACL_ENTRY, NO_ID = struct.pack("<I", 2), struct.Struct("<HHI"), 0xFFFFFFFF
OWNER, USER, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
READ, WRITE = 4, 2


def _let_read(file: int, uid: int) -> None:
    """Lets one more user read the file, which stays ours. Where there are no ACLs it becomes that user's: writing into
    it, the user would change that user's own job only."""
    rights = (
        (OWNER, READ | WRITE, NO_ID),
        (USER, READ, uid),
        (GROUP, 0, NO_ID),
        (MASK, READ, NO_ID),
        (OTHER, 0, NO_ID),
    )
    packed = ACL_HEAD + b"".join(ACL_ENTRY.pack(*right) for right in rights)
    try:
        os.setxattr(file, "system.posix_acl_access", packed)
    except OSError:
        os.fchown(file, uid, -1)


class PageWriter:
    """The page of process `pid`, which started at `pid_start_ticks`, both as the process itself knows them."""

    def __init__(
        self,
        directory: Path,
        pid: int,
        pid_start_ticks: int,
        slot_ns: int,
        uid: int | None = None,
        capacity: int = DEFAULT_ENTRIES,
    ) -> None:
        """Raises OSError where the file cannot be made. `uid` may read it, where that is another user than ours."""
        if not 0 < capacity <= MOST_ENTRIES:
            raise ValueError(f"capacity is {capacity}, expected 1 to {MOST_ENTRIES}")
        self.path = directory / page_name(pid, pid_start_ticks)
        self._capacity, self._sequence = capacity, 0
        self._last: bytes | None = None
        temporary = directory / f".{self.path.name}.{os.getpid()}"
        self._file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            size = page_bytes(capacity)
            os.posix_fallocate(self._file, 0, size)
            now_ns = time.monotonic_ns()
            header = HEADER.pack(MAGIC, VERSION, size, 0, now_ns, slot_ns, capacity, pid, pid_start_ticks)
            os.pwrite(self._file, header, 0)
            self.write([])
            if uid is not None and uid != os.geteuid():
                _let_read(self._file, uid)
            temporary.replace(self.path)
        except BaseException:
            os.close(self._file)
            temporary.unlink(missing_ok=True)
            raise

    def write(self, entries: Sequence[Entry]) -> None:
        """The state from now on: all peers that are not open. More than the page holds are left open."""
        kept = entries[: self._capacity]
        packed = b"".join(ENTRY.pack(one.peer, one.state, 0, one.held_until_ns, one.rate) for one in kept)
        if packed == self._last:
            return
        sequence = self._sequence + 1
        head = BANK_HEAD.pack(sequence, len(kept), checksum(sequence, len(kept), packed))
        os.pwrite(self._file, head + packed, bank_at(sequence, self._capacity))
        os.pwrite(self._file, struct.pack("<Q", sequence), SEQUENCE_AT)
        self._sequence, self._last = sequence, packed

    def beat(self, now_ns: int) -> None:
        os.pwrite(self._file, struct.pack("<q", now_ns), HEARTBEAT_AT)

    def close(self) -> None:
        """A reader that has the file open sees a heartbeat of long ago; the next finds no file."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self.beat(0)
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> PageWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

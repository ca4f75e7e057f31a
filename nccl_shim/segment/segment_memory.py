"""A segment in sealed memory (registration.py), mapped. Law: it can be neither cut nor hollowed out while it is mapped.

That is what its seals say, and they are checked before it is mapped: by hostd/registration, or by memory_search.py.
Which process it is of, and which user's, the kernel has said; what the memory itself says of that must agree.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

from nccl_shim.segment import layout
from nccl_shim.segment.liveness import own_pid_namespace, start_ticks
from nccl_shim.segment.registration import SEALS
from nccl_shim.segment.segment_file import SegmentFile, checked_name
from nccl_shim.segment.snapshot import NotASegment, parse_header


class SegmentMemory(SegmentFile):
    """One mapped segment of process `pid`, which started at `started` and is of `uid`."""

    def __init__(self, descriptor: int, pid: int, started: int, uid: int) -> None:
        """Takes the descriptor, whose seals were checked, and closes it; raises OSError or NotASegment."""
        self.path = Path(f"memory of process {pid}")
        self.claimed = 0
        self.uid, self.host_pid = uid, pid
        try:
            self._map = mmap.mmap(descriptor, layout.FILE_BYTES, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(descriptor)
        try:
            header = parse_header(self._bytes(layout.HEADER_BYTES))
            self.job = checked_name(header.job)
            self._writer = (pid, started, header.pid_namespace)
            # In another namespace it knows itself by another pid, and perhaps by another start.
            named = (header.pid, header.pid_start_ticks)
            if header.pid_namespace == own_pid_namespace() and named != (pid, started):
                raise NotASegment(f"names process {header.pid}, and was sent by {pid}")
        except BaseException:
            self._map.close()
            raise

    def is_alive(self) -> bool:
        return start_ticks(self._writer[0]) == self._writer[1]

    def close(self) -> None:
        self._map.close()

    def _bytes(self, size: int, offset: int = 0) -> bytes:
        return self._map[offset : offset + size]


def why_unfit(descriptor: int) -> str | None:
    """Why this descriptor is not of a segment's memory: `seals` or `size`. None: it is, for ever.

    Safe for any descriptor: seals of what has none are refused by the kernel before its file system hears of it, and
    what has them is memory.
    """
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        return "seals"
    if seals & SEALS != SEALS:
        return "seals"
    info = os.fstat(descriptor)
    # Without holes: reading one through a map would cost the reader a page.
    return None if info.st_size == layout.FILE_BYTES <= 512 * info.st_blocks else "size"

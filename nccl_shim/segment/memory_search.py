"""Segments in memory of running processes, without hostd: for `paceline jobs`, of our own user's processes or, for
root, of all. Law: no other file of a process is opened.

The name of a descriptor is the process's choice; the mount it lies on is not: memory of this kind lies on one mount
that only the kernel puts files on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nccl_shim.segment.liveness import owner_of, start_ticks
from nccl_shim.segment.reader import Reader
from nccl_shim.segment.registration import MEMORY_NAME
from nccl_shim.segment.segment_memory import SegmentMemory, why_unfit
from nccl_shim.segment.snapshot import NotASegment

_LINK = f"/memfd:{MEMORY_NAME} (deleted)"
_MOUNT = re.compile(rb"mnt_id:\s*(\d+)")


def admit_memories(reader: Reader) -> None:
    """Every one that is not known yet, to the reader."""
    for name, pid, descriptor in memories():
        started, uid = start_ticks(pid), owner_of(pid)
        if name in reader or started is None or uid is None:
            os.close(descriptor)
            continue
        with suppress(NotASegment, OSError):
            reader.admit(name, SegmentMemory(descriptor, pid, started, uid))


def memories() -> Iterator[tuple[str, int, int]]:
    """A name, the process's pid and a descriptor, for the caller to close."""
    probe = os.memfd_create("probe", os.MFD_CLOEXEC)
    try:
        mount = _mount("self", probe)
    finally:
        os.close(probe)
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):  # it has ended, or is another user's
                yield from _of_process(process, mount)


def _of_process(process: Path, mount: bytes) -> Iterator[tuple[str, int, int]]:
    seen = set()
    for entry in (process / "fd").iterdir():
        with suppress(OSError):
            # A link that says where it leads; to read it, its file is not touched.
            if os.readlink(entry) != _LINK or _mount(process.name, int(entry.name)) != mount:  # noqa: PTH115
                continue
            descriptor = os.open(entry, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            inode = os.fstat(descriptor).st_ino
            if inode in seen or why_unfit(descriptor) is not None:
                os.close(descriptor)
                continue
            seen.add(inode)
            yield f"memory {inode} of process {process.name}", int(process.name), descriptor


def _mount(process: str, descriptor: int) -> bytes:
    found = _MOUNT.search(Path(f"/proc/{process}/fdinfo/{descriptor}").read_bytes())
    return found[1] if found else b""

"""Small file systems of a run's own, which can be filled up without harm.

Law: they are mounted in a mount namespace that only this thread and what it starts are in. However the run ends, the
kernel takes them down with the last process in there.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNS = 0x0002_0000
_MS_PRIVATE_RECURSIVE = 1 << 18 | 1 << 14
_MNT_DETACH = 2
DISK_BYTES = 1 << 20
_FILL = "fill"
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def own_mounts() -> Iterator[str]:
    """The calling thread has mounts of its own until the block ends; yields why not, or nothing.

    What is started in the block must have ended with it: threads that share this one's directory keep it here.
    """
    before, directory = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC), Path.cwd()
    try:
        if why := _refused(_libc.unshare(_CLONE_NEWNS)):
            yield why
            return
        try:
            yield _refused(_libc.mount(b"none", b"/", None, _MS_PRIVATE_RECURSIVE, None))
        finally:
            _libc.setns(before, _CLONE_NEWNS)
            os.chdir(directory)
    finally:
        os.close(before)


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Mounted at this directory, which is empty before and after; raises OSError."""
    place.mkdir(parents=True, exist_ok=True)
    if why := _refused(_libc.mount(b"chaos", os.fsencode(place), b"tmpfs", 0, f"size={DISK_BYTES}".encode())):
        raise OSError(why)
    try:
        yield
    finally:
        _libc.umount2(os.fsencode(place), _MNT_DETACH)


def fill(place: Path) -> None:
    """To the last byte."""
    block = bytes(4096)
    with (place / _FILL).open("wb", buffering=0) as out:
        try:
            while out.write(block):
                pass
        except OSError:
            return


def empty(place: Path) -> None:
    (place / _FILL).unlink(missing_ok=True)


def _refused(result: int) -> str:
    return os.strerror(ctypes.get_errno()) if result != 0 else ""

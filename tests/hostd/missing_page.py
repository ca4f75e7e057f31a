"""A page of memory that does not arrive before it is told to: a send from it keeps its socket's lock meanwhile."""

import ctypes
import fcntl
import mmap
import os
import struct
from pathlib import Path

DEVICE = Path("/dev/userfaultfd")
_NEW, _API, _REGISTER, _ZEROPAGE = 0xAA00, 0xC018AA3F, 0xC020AA00, 0xC020AA04
_MISSING = 1


class MissingPage:
    def __init__(self) -> None:
        device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._faults = fcntl.ioctl(device, _NEW, os.O_CLOEXEC)
        finally:
            os.close(device)
        self.memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        fcntl.ioctl(self._faults, _API, bytearray(struct.pack("=QQQ", 0xAA, 0, 0)))
        fcntl.ioctl(self._faults, _REGISTER, bytearray(struct.pack("=QQQQ", self._start, mmap.PAGESIZE, _MISSING, 0)))

    def arrive(self) -> None:
        fcntl.ioctl(self._faults, _ZEROPAGE, bytearray(struct.pack("=QQQq", self._start, mmap.PAGESIZE, 0, 0)))

"""A file of a file system (FUSE) that never answers a close: the root of a mount, which is a file here."""

import ctypes
import os
import stat
import struct
import threading
from pathlib import Path

DEVICE = Path("/dev/fuse")
MOST_S = 60.0
_INIT, _GETATTR, _OPEN, _FLUSH = 26, 3, 14, 25
_MNT_FORCE, _MNT_DETACH = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


class HangingFile:
    def __init__(self, path: Path) -> None:
        """At this path, which must be a file; raises OSError."""
        self.path, self.flushes, self._released = path, 0, False
        self._device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode={stat.S_IFREG:o},user_id=0,group_id=0,allow_other"
        if _libc.mount(b"hanging", os.fsencode(path), b"fuse", 0, options.encode()) != 0:
            os.close(self._device)
            raise OSError(ctypes.get_errno(), "mount")
        threading.Thread(target=self._serve, daemon=True).start()
        self._at_last = threading.Timer(MOST_S, self.release)  # whatever happens, no process is left hanging
        self._at_last.daemon = True
        self._at_last.start()

    def release(self) -> None:
        """Every call on it fails from now on, those that hang first."""
        if not self._released:
            self._released = True
            _libc.umount2(os.fsencode(self.path), _MNT_FORCE)
            _libc.umount2(os.fsencode(self.path), _MNT_DETACH)

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, 1 << 17)
            except OSError:  # released
                self._at_last.cancel()
                os.close(self._device)
                return
            _, operation, unique = struct.unpack_from("=IIQ", request)
            if operation == _FLUSH:
                self.flushes += 1
                continue
            answer, error = b"", 0
            if operation == _INIT:
                answer = struct.pack("=IIIIHHII", 7, 31, 0, 0, 12, 9, 1 << 16, 1) + bytes(36)
            elif operation == _GETATTR:
                times = struct.pack("=6Q3I", 1, 0, 0, 0, 0, 0, 0, 0, 0)
                answer = struct.pack("=QII", 3600, 0, 0) + times
                answer += struct.pack("=7I", stat.S_IFREG | 0o666, 1, 0, 0, 0, 4096, 0)
            elif operation == _OPEN:
                answer = struct.pack("=QII", 1, 0, 0)
            else:
                error = -38  # ENOSYS
            with_length = struct.pack("=IiQ", 16 + len(answer), error, unique) + answer
            os.write(self._device, with_length)

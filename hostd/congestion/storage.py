"""What is said to a BPF program of one socket: its entry in a map of kind SK_STORAGE, by a descriptor of the socket.

One system call, without libbpf: workers (hostd/workers) make it, which are to stay small. They have the map from the
process that loaded it: pidfd_getfd, as they have jobs' sockets.
"""

import ctypes
import os

SYSTEM_CALL = {"x86_64": 321, "aarch64": 280}
_MAP_UPDATE_ELEM, _ANY = 2, 0


class _Update(ctypes.Structure):
    _fields_ = [
        ("map_fd", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("key", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
    ]


def store(map_fd: int, descriptor: int, value: bytes) -> None:
    """Raises OSError."""
    key, written = ctypes.c_int(descriptor), ctypes.create_string_buffer(value, len(value))
    update = _Update(map_fd, 0, ctypes.addressof(key), ctypes.addressof(written), _ANY)
    libc = ctypes.CDLL(None, use_errno=True)
    number = SYSTEM_CALL[os.uname().machine]
    if libc.syscall(number, _MAP_UPDATE_ELEM, ctypes.byref(update), ctypes.sizeof(update)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

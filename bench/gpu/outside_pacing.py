"""Paces another process's TCP sockets from outside, through duplicates (pidfd_getfd). Law: a duplicate is closed at
once, because one left open would hold back the job's FIN.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_SO_MAX_PACING_RATE = 47
UNLIMITED = 0xFFFF_FFFF_FFFF_FFFF
_BYTES_RECEIVED_AT, _BYTES_SENT_AT, _TCP_INFO_BYTES = 128, 200, 208
_libc = ctypes.CDLL(None, use_errno=True)


def data_sockets(pid: int, min_sent_bytes: int, one_way: bool) -> list[int]:
    """Descriptors in `pid` of TCP sockets that sent at least this much (one-way: and received nothing)."""

    def carries_data(duplicate: socket.socket) -> bool:
        info = duplicate.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        [received] = struct.unpack_from("<Q", info, _BYTES_RECEIVED_AT)
        [sent] = struct.unpack_from("<Q", info, _BYTES_SENT_AT)
        return sent >= min_sent_bytes and not (one_way and received)

    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if str(entry.readlink()).startswith("socket:") and _on_duplicate(pid, int(entry.name), carries_data):
                found.append(int(entry.name))
        except OSError:
            continue  # closed meanwhile, or not TCP
    return found


def pace(pid: int, descriptors: list[int], total_bytes_per_s: int) -> None:
    """Divides a rate (or UNLIMITED) over the sockets."""
    share = total_bytes_per_s if total_bytes_per_s == UNLIMITED else total_bytes_per_s // len(descriptors)

    def set_rate(duplicate: socket.socket) -> bool:
        duplicate.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("<Q", share))
        return True

    for descriptor in descriptors:
        _on_duplicate(pid, descriptor, set_rate)


def _on_duplicate(pid: int, descriptor: int, use: Callable[[socket.socket], bool]) -> bool:
    process = _call(_PIDFD_OPEN, pid, 0)
    try:
        copy = _call(_PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    with socket.socket(fileno=copy) as duplicate:
        return use(duplicate)


def _call(number: int, *arguments: int) -> int:
    result = _libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)

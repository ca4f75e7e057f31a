"""TCP_INFO of many sockets of other processes, in the fewest system calls: four a socket.

    pidfd_open, once ── for each socket: pidfd_getfd, its cookie, TCP_INFO, close

This is what hostd does most: Python's socket objects would make four more, and take three times as long. A process's
descriptor is kept, and says so when the process has ended, whoever has its pid by then.
"""

import ctypes
import errno
import os
import socket

from hostd.kernel.pidfd import PIDFD_GETFD, SO_COOKIE, SocketGone
from hostd.kernel.tcp_info import INFO, TcpCounters

_libc = ctypes.CDLL(None, use_errno=True)
_syscall, _getsockopt = _libc.syscall, _libc.getsockopt

MOST_PROCESSES = 64


class CounterReader:
    """`close` at the end."""

    def __init__(self) -> None:
        self._processes: dict[int, int] = {}  # descriptors, by pid
        self._cookie, self._cookie_bytes = ctypes.c_uint64(), ctypes.c_uint32()
        self._info, self._info_bytes = ctypes.create_string_buffer(INFO.size), ctypes.c_uint32()
        self._cookie_at = ctypes.byref(self._cookie), ctypes.byref(self._cookie_bytes)
        self._info_at = ctypes.byref(self._info), ctypes.byref(self._info_bytes)

    def read(self, pid: int, fd: int, cookie: int) -> TcpCounters:
        """Raises SocketGone, or OSError where the socket cannot be reached."""
        if (process := self._processes.get(pid, -1)) < 0:
            process = self._open(pid)
        descriptor = _syscall(PIDFD_GETFD, process, fd, 0)
        if descriptor < 0:
            if (number := ctypes.get_errno()) == errno.ESRCH:
                os.close(self._processes.pop(pid))
                raise SocketGone(f"process {pid} has ended")
            if number != errno.EBADF:
                raise OSError(number, os.strerror(number))  # it may well be there: no right to it, or no room for it
            raise SocketGone(f"process {pid} has closed descriptor {fd}")
        try:
            self._cookie_bytes.value = 8
            if _getsockopt(descriptor, socket.SOL_SOCKET, SO_COOKIE, *self._cookie_at) or self._cookie.value != cookie:
                raise SocketGone(f"descriptor {fd} of process {pid} is another socket now")
            self._info_bytes.value = INFO.size
            ctypes.memset(self._info, 0, INFO.size)  # an older kernel fills less of it
            if _getsockopt(descriptor, socket.IPPROTO_TCP, socket.TCP_INFO, *self._info_at):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(descriptor)
        mss, acked, received, waiting, retransmitted = INFO.unpack(self._info)
        return TcpCounters(acked, received, waiting, retransmitted, mss)

    def _open(self, pid: int) -> int:
        if len(self._processes) >= MOST_PROCESSES:
            self.close()
        try:
            process = self._processes[pid] = os.pidfd_open(pid)
        except ProcessLookupError:
            raise SocketGone(f"process {pid} has ended") from None
        return process

    def close(self) -> None:
        while self._processes:
            os.close(self._processes.popitem()[1])

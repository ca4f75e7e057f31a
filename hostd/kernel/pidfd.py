"""A job's socket, duplicated for one system call or two. Law: a duplicate that stays open holds back the job's FIN.

pidfd_getfd duplicates a descriptor of another process. Between looking and duplicating the job may have closed the
socket and the number may name something else, so every duplicate's cookie is checked, which the kernel gives to one
socket only, ever. A socket that has gone is a fact of life here, not an error: `SocketGone`.

Needs the right to ptrace the process: the same user, or CAP_SYS_PTRACE.
"""

import ctypes
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

PIDFD_GETFD = 438  # on every architecture
SO_COOKIE = 57
_TCP = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
_libc = ctypes.CDLL(None, use_errno=True)


class SocketGone(Exception):
    """The process ended, or closed this descriptor."""


@contextmanager
def duplicated_socket(pid: int, fd: int, cookie: int | None = None) -> Iterator[socket.SocketType]:
    """A duplicate of the socket behind `fd` of process `pid`, closed at the end; raises as duplicate_socket does."""
    duplicate = duplicate_socket(pid, fd, cookie)
    try:
        yield duplicate
    finally:
        duplicate.close()


def duplicate_socket(pid: int, fd: int, cookie: int | None = None) -> socket.SocketType:
    """The same for a caller in a hurry, which closes it; raises SocketGone, or OSError if it cannot be duplicated.

    With a cookie the socket is known already, and its options can be used. Without one the kernel is asked what it is
    (three more system calls), and its addresses can be read too. Sockets are read so often that it matters that
    SocketType is made in a third of the time that Python's own class on top of it takes.
    """
    descriptor = duplicate_descriptor(pid, fd)
    try:
        duplicate = socket.SocketType(fileno=descriptor) if cookie is None else socket.SocketType(*_TCP, descriptor)
    except OSError:  # not even a socket
        os.close(descriptor)
        raise SocketGone(f"descriptor {fd} of process {pid} is no socket") from None
    try:
        if cookie is not None and cookie_of(duplicate) != cookie:
            raise SocketGone(f"descriptor {fd} of process {pid} is another socket now")
    except BaseException:
        duplicate.close()
        raise
    return duplicate


def duplicate_descriptor(pid: int, fd: int) -> int:
    """A descriptor of our own for whatever is behind `fd` of process `pid`; raises SocketGone or OSError."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        raise SocketGone(f"process {pid} has ended") from None
    try:
        descriptor = int(_libc.syscall(PIDFD_GETFD, process, fd, 0))
    finally:
        os.close(process)
    if descriptor < 0:
        if (number := ctypes.get_errno()) not in (errno.EBADF, errno.ESRCH):
            raise OSError(number, os.strerror(number))  # it may well be there: no right to it, or no room for it
        raise SocketGone(f"process {pid} has closed descriptor {fd}")
    return descriptor


def cookie_of(duplicate: socket.SocketType) -> int:
    """The kernel's name for a socket, never used again until the next boot."""
    return int.from_bytes(duplicate.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), "little")

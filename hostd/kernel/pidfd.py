"""A job's socket, borrowed for one system call or two. Law: a copy that stays open holds back the job's FIN.

pidfd_getfd copies a descriptor out of another process. Between looking and borrowing the job may have closed the
socket and the number may name something else, so every borrowing checks the cookie, which the kernel gives to one
socket only, ever. What has gone is a fact of life here, not an error: `Gone`.

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


class Gone(Exception):
    """The process ended, or closed this socket."""


@contextmanager
def borrowed(pid: int, fd: int, cookie: int | None = None) -> Iterator[socket.SocketType]:
    """The socket behind `fd` of process `pid`; raises Gone, or OSError when it cannot be borrowed."""
    taken = take(pid, fd, cookie)
    try:
        yield taken
    finally:
        taken.close()


def take(pid: int, fd: int, cookie: int | None = None) -> socket.SocketType:
    """The same for whoever is in a hurry, and closes it.

    With a cookie we know it already, and its options can be used. Without one the kernel is asked what it is (three
    more system calls), and its addresses can be read too. Sockets are read so often that it matters that SocketType
    is made in a third of the time that Python's own class on top of it takes.
    """
    copy = copy_of(pid, fd)
    try:
        taken = socket.SocketType(fileno=copy) if cookie is None else socket.SocketType(*_TCP, copy)
    except OSError:  # not even a socket
        os.close(copy)
        raise Gone(f"descriptor {fd} of process {pid} is no socket") from None
    try:
        if cookie is not None and cookie_of(taken) != cookie:
            raise Gone(f"descriptor {fd} of process {pid} is another socket now")
    except BaseException:
        taken.close()
        raise
    return taken


def copy_of(pid: int, fd: int) -> int:
    """A descriptor of our own for whatever is behind `fd` of process `pid`."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        raise Gone(f"process {pid} has ended") from None
    try:
        copy = int(_libc.syscall(PIDFD_GETFD, process, fd, 0))
    finally:
        os.close(process)
    if copy < 0:
        if (number := ctypes.get_errno()) not in (errno.EBADF, errno.ESRCH):
            raise OSError(number, os.strerror(number))  # it may well be there: no right to it, or no room for it
        raise Gone(f"process {pid} has closed descriptor {fd}")
    return copy


def cookie_of(borrowed_socket: socket.SocketType) -> int:
    """The kernel's name for a socket, never used again until the next boot."""
    return int.from_bytes(borrowed_socket.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), "little")

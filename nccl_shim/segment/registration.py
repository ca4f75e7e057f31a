"""Handing a process's counters to hostd. Law: never waits, never fails the job, and uses no thread: counting itself
looks after the connection, once a second.

    memfd ── one message with its descriptor ──▶ hostd       the connection stays open as long as both live
    hostd has gone                                           connect again every second: until a hostd listens, that
                                                             reaches no process
    hostd is there, and does not take it                     connect again after 1, 2, 4, 8, 8 ... seconds

The memory is sealed first: hostd maps it, and a page that went away would kill hostd; and no receiver of the descriptor
can write to it. csrc/registration.c does the same; hostd/registration is the other end.

A program may close every descriptor it finds, and open others by the same numbers. So ours are told by their inodes
before they are used, and never closed unless they are ours.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
import select
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from nccl_shim.segment import layout

MESSAGE = struct.pack("=8sII", b"PACEREG1", layout.VERSION, layout.FILE_BYTES)
MEMORY_NAME = "paceline"
_SEAL_FUTURE_WRITE = 0x10  # but through the map that is there; Linux 5.1
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _SEAL_FUTURE_WRITE

_SECOND_NS = 1_000_000_000
_FIRST_WAIT_NS, _LONGEST_WAIT_NS = _SECOND_NS, 8 * _SECOND_NS
_APART_NS = 1_000_000  # between processes of one job, which would all come at once
_LASTED_NS = 5 * _SECOND_NS  # a connection that ended sooner was refused
NEVER = sys.maxsize


class _Known:
    """A descriptor, and what it was when it was ours."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self._name = descriptor, _name(descriptor)

    def is_ours(self) -> bool:
        return self._name is not None and _name(self.descriptor) == self._name

    def close(self) -> None:
        if self.is_ours():
            os.close(self.descriptor)
        self._name = None


def _name(descriptor: int) -> tuple[int, int] | None:
    try:
        info = os.fstat(descriptor)
    except OSError:
        return None
    return info.st_dev, info.st_ino


class Registration:
    """Of one memory at one socket, from now on."""

    def __init__(self, path: Path, memory: int, connection: socket.socket | None) -> None:
        """`connection`: None if hostd is there and busy, or not there yet."""
        self.due_ns = NEVER  # for `tend`
        self._path, self._memory = path, _Known(memory)
        self._connection: _Known | None = None
        self._connected_ns = time.monotonic_ns()
        self._wait_ns = _FIRST_WAIT_NS
        self._tending = threading.Lock()
        if connection is not None:
            with suppress(OSError):
                self._hand_over(connection)
        self.due_ns = self._connected_ns + _SECOND_NS

    def tend(self, now_ns: int) -> None:
        """Looks after the connection; never waits, never raises."""
        if self._tending.acquire(blocking=False):
            try:
                if now_ns >= self.due_ns:
                    self._tend(now_ns)
            except Exception:
                self.due_ns = NEVER  # the job is not to hear of it
            finally:
                self._tending.release()

    def abandon(self) -> None:
        """In a forked child: it is the parent's, whose end must be seen as such."""
        self.due_ns = NEVER
        for one in (self._connection, self._memory):
            if one is not None:
                one.close()

    def _tend(self, now_ns: int) -> None:
        if self._connection is not None and self._connection.is_ours():
            ended = select.poll()
            ended.register(self._connection.descriptor, 0)
            if not ended.poll(0):
                self.due_ns = now_ns + _SECOND_NS
                return
            self._connection.close()
            if now_ns - self._connected_ns >= _LASTED_NS:
                self._wait_ns = _FIRST_WAIT_NS
        self._connection = None
        if not self._memory.is_ours():
            self.due_ns = NEVER  # there is nothing left to hand over
            return
        try:
            self._hand_over(connect(self._path))
            self._connected_ns, self.due_ns = now_ns, now_ns + _SECOND_NS
        except (FileNotFoundError, ConnectionRefusedError):  # nothing listens
            self._wait_ns = _FIRST_WAIT_NS
            self.due_ns = now_ns + _FIRST_WAIT_NS + os.getpid() % 256 * _APART_NS
        except OSError:
            self.due_ns = now_ns + self._wait_ns
            self._wait_ns = min(2 * self._wait_ns, _LONGEST_WAIT_NS)

    def _hand_over(self, connection: socket.socket) -> None:
        """Raises OSError with the connection closed."""
        try:
            socket.send_fds(connection, [MESSAGE], [self._memory.descriptor], socket.MSG_NOSIGNAL)
        except OSError:
            connection.close()
            raise
        self._connection = _Known(connection.detach())


def connect(path: Path) -> socket.socket:
    """To hostd; raises OSError, BlockingIOError if hostd is there and busy."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        connection.connect(os.fsencode(path))
    except OSError:
        connection.close()
        raise
    return connection


def new_memory() -> tuple[int, mmap.mmap]:
    """Memory that nothing but this map can write and nothing can resize; raises OSError."""
    limit_bytes = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit_bytes != resource.RLIM_INFINITY and limit_bytes < layout.FILE_BYTES:
        raise OSError("file size limit is too small")  # exceeding it would be a fatal SIGXFSZ
    memory = os.memfd_create(MEMORY_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(memory, 0, layout.FILE_BYTES)
        mapped = mmap.mmap(memory, layout.FILE_BYTES)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, SEALS)
    except OSError:
        os.close(memory)
        raise
    return memory, mapped

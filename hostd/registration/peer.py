"""A process that has connected, as the kernel knows it. Law: pid and start time are of the process that connected.

kernel ──▶ pid, uid, pidfd ──▶ start time

SO_PEERCRED    its pid and uid when it connected; the pid may be another's by now
SO_PEERPIDFD   the process itself (Linux 6.5): while it is alive, so is its pid
before 6.5     the process that has the pid now, if it is of that user
"""

import os
import select
import socket
import struct
import time

from nccl_shim.segment.liveness import owner_of, start_ticks

SO_PEERPIDFD = 77
_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid


class Unknown(Exception):
    """Which process it is cannot be told: it has ended, or is out of sight."""

    def __init__(self, pid: int, uid: int) -> None:
        super().__init__()
        self.pid, self.uid = pid, uid


class Peer:
    """One connection."""

    def __init__(self, connection: socket.socket, pidfd: int | None, pid: int, started: int, uid: int) -> None:
        self.connection, self.pid, self.started, self.uid = connection, pid, started, uid
        self._pidfd = pidfd
        self.since_s = time.monotonic()
        self.waits = False  # its message is there, and not received yet
        self.number = 0  # once it is registered
        self.memory: int | None = None  # until hostd has it
        self.over = False

    def descriptors(self) -> list[int]:
        """To be watched."""
        return [self.connection.fileno(), *([] if self._pidfd is None else [self._pidfd])]

    def close_memory(self) -> None:
        if self.memory is not None:
            os.close(self.memory)
            self.memory = None

    def close(self) -> None:
        self.close_memory()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        self.connection.close()


def peer_of(connection: socket.socket) -> Peer:
    """Raises Unknown."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if pid <= 0:  # of a pid namespace that is not below ours
        raise Unknown(pid, uid)
    try:
        pidfd, exact = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD), True
    except OSError:
        exact = False
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            raise Unknown(pid, uid) from None
    started = start_ticks(pid)
    alive = started is not None and not _has_ended(pidfd)  # asked after the start time: it is that process's
    if alive and not exact:
        alive = owner_of(pid) == uid
    if started is None or not alive:
        os.close(pidfd)
        raise Unknown(pid, uid)
    return Peer(connection, pidfd, pid, started, uid)


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))

"""One hostd per network namespace: of two, each would take the other's qdiscs for those of a lost predecessor.

An abstract Unix socket belongs to the network namespace it was made in, and the kernel frees its name with the process,
even after kill -9. The lock in the runtime directory cannot tell: another hostd may have another directory.
"""

import errno
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from service.lockfile import AlreadyRunning

NAME = b"\0paceline-hostd"
_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid


@contextmanager
def only_hostd_here() -> Iterator[None]:
    """Raises AlreadyRunning."""
    with socket.socket(socket.AF_UNIX) as name:
        try:
            name.bind(NAME)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise AlreadyRunning(f"another instance ({_holder()}) is running in this network namespace") from None
        name.listen()  # nobody is accepted: who listens is all that there is to know
        yield


def _holder() -> str:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        try:
            asking.connect(NAME)
        except OSError:
            return "pid unknown"
        pid, _, _ = _CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return f"pid {pid}"

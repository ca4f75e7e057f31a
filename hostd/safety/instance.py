"""One hostd per network namespace: of two, each would take the other's qdiscs for those of a dead predecessor.

An abstract Unix socket belongs to the network namespace it was made in, and the kernel frees its name with the process,
even after kill -9. The lock in the runtime directory cannot tell: another hostd may have another directory.

A hostd that was killed and cannot die, in a system call that does not return, keeps its name and no other hostd away:
the next one takes another name.

Any process can take such a name. Which user's it is the kernel says (sock_diag), whatever the process does with it: a
user that is neither root nor hostd's own keeps no hostd from starting.
"""

import errno
import logging
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hostd.kernel.netlink import Netlink, attributes
from paceline.service.lockfile import AlreadyRunning, was_killed

NAME = b"\0paceline-hostd"
MOST_KILLED = 7
_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST = struct.Struct("=BBHIIIII")  # family, protocol, padding, states, inode, what to show, cookie
_ANSWER = struct.Struct("=BBBBIII")  # family, type, state, padding, inode, cookie
_BOUND_OR_LISTENING = 1 << 7 | 1 << 10  # connections to the name bear it as well, without a uid
_SHOW_NAME, _SHOW_UID = 0x1, 0x40
_NAME_ATTRIBUTE, _UID_ATTRIBUTE = 0, 7

_log = logging.getLogger(__name__)


@contextmanager
def only_hostd_here() -> Iterator[None]:
    """Raises AlreadyRunning. The first free name is taken, and no other may be a living hostd's."""
    with ExitStack() as stack:
        taken = False
        for name in (NAME, *(NAME + b"-%d" % number for number in range(1, MOST_KILLED + 1))):
            own = stack.enter_context(socket.socket(socket.AF_UNIX))
            try:
                own.bind(name)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                _check_holder(name)
                continue
            if taken:
                own.close()  # it is free, and may stay so
            else:
                own.listen()  # no connection is accepted: the process that listens is all that there is to know
                taken = True
        yield


def _check_holder(name: bytes) -> None:
    """A hostd that was killed and cannot die, and another user, may have it; raises AlreadyRunning for any other."""
    uid, pid = _uid_of_holder(name), _holder(name)
    if uid not in (None, 0, os.geteuid()):
        _log.warning("uid %d holds hostd's name here; only the lock file keeps a second hostd away", uid)
    elif pid is not None and was_killed(pid):
        _log.warning("a hostd that was killed (pid %d) cannot die; it is left behind", pid)
    else:
        held = f"another instance (pid {pid or 'unknown'}) is running in this network namespace"
        raise AlreadyRunning(held)


def _uid_of_holder(name: bytes) -> int | None:
    """None: it is free by now, or the kernel cannot say."""
    asked = _REQUEST.pack(socket.AF_UNIX, 0, 0, _BOUND_OR_LISTENING, 0, _SHOW_NAME | _SHOW_UID, 0, 0)
    try:
        with Netlink(_NETLINK_SOCK_DIAG) as kernel:
            answers = kernel.dump(_SOCK_DIAG_BY_FAMILY, asked)
    except OSError:
        return None
    for answer in answers:
        found, kind = attributes(answer[_ANSWER.size :]), answer[1]
        if kind == socket.SOCK_STREAM and found.get(_NAME_ATTRIBUTE) == name and _UID_ATTRIBUTE in found:
            return int.from_bytes(found[_UID_ATTRIBUTE], sys.byteorder)
    return None


def _holder(name: bytes) -> int | None:
    """Its pid; None: it is free by now, or has no place for a question."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        try:
            asking.connect(name)
        except OSError:
            return None
        pid, _, _ = _CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return int(pid)

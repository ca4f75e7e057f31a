"""Receives what a user's processes sent. Law: a process that has received a descriptor may never end.

A descriptor can be of any file. Closing one that a job's own file system (FUSE) serves waits for its server, in a sleep
that no signal ends, and even the end of the process waits for it. So it is received by a child that is forked for
the purpose, of one user, that closes nothing: it says what it has found, hands on what is fit, and ends or hangs.
What it hands on is sealed memory, which no job can keep any process waiting with.

Safe on any descriptor is F_GET_SEALS: the kernel refuses it for what is no memory before a file system hears of it
(nccl_shim/segment/segment_memory.py). At most one descriptor is received with a message: the kernel drops the rest.
"""

import marshal
import socket
import struct
from collections.abc import Sequence

from hostd.registration.protocol import Refusal
from nccl_shim.segment.registration import MESSAGE
from nccl_shim.segment.segment_memory import why_unfit

_ONE_DESCRIPTOR = socket.CMSG_LEN(4)  # CMSG_SPACE has room for two


def receive_all(connections: Sequence[int], channel: int) -> None:
    """From each, and an answer through the channel: its place, and a Refusal or the memory."""
    answers = socket.socket(fileno=channel)
    for place, descriptor in enumerate(connections):
        memory, refusal = receive(socket.socket(fileno=descriptor))
        answer = marshal.dumps((place, refusal and refusal.value))
        socket.send_fds(answers, [answer], [] if memory is None else [memory])


def receive(connection: socket.socket) -> tuple[int | None, Refusal | None]:
    """One message: the memory, or why not."""
    try:
        text, ancillary, flags, _ = connection.recvmsg(len(MESSAGE) + 1, _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC)
        connection.shutdown(socket.SHUT_RD)  # and nothing more
    except OSError:
        return None, Refusal.SILENT
    numbers = [data for level, kind, data in ancillary if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
    if text != MESSAGE or flags & socket.MSG_TRUNC:
        return None, Refusal.MESSAGE
    if len(numbers) != 1 or len(numbers[0]) != 4 or flags & socket.MSG_CTRUNC:
        return None, Refusal.DESCRIPTOR
    (memory,) = struct.unpack("i", numbers[0])
    unfit = why_unfit(memory)
    return (memory, None) if unfit is None else (None, Refusal(unfit))

"""A worker: the process that makes calls on one user's jobs, and may be kept waiting by them.

    hostd ── calls ──▶ worker ── answers, how long it took ──▶ hostd

Beside that, a word of shared memory says which process it is busy with: what hostd needs to know of a worker that does
not come back. It ends with the other end of its socket.
"""

import errno
import marshal
import mmap
import os
import socket
import sys
import time
from contextlib import suppress
from typing import Any

from hostd.kernel.calls import Here
from hostd.kernel.pidfd import SocketGone

HELLO = b"ready"
MESSAGE_BYTES = 1 << 18
SHORT_BYTES = 48  # of most answers, of which there are up to 2048 (pool.py)
FITTING_BYTES = 1 << 16  # of others, where not all fit: a socket's buffer may be smaller than a message
GONE = -1  # instead of an error's number


def main(arguments: list[str]) -> None:
    channel = socket.socket(fileno=int(arguments[0]))
    busy_with = memoryview(mmap.mmap(int(arguments[1]), mmap.PAGESIZE)).cast("q")
    here, asked_by = Here(), os.getppid()
    message = memoryview(bytearray(MESSAGE_BYTES))  # recv() would have the memory mapped and unmapped each time
    channel.send(HELLO)
    while size := channel.recv_into(message):
        calls = marshal.loads(message[:size])
        began_s = time.monotonic()
        answers = []
        for call in calls:
            if os.getppid() != asked_by:  # it has died, and somebody else gives sockets back what they had
                return
            busy_with[0] = call[1]
            answers.append(_as_values(here.answer(call)))
        busy_with[0] = 0
        # A descriptor is asked for alone.
        descriptors = [
            int(str(answer))
            for call, (error, answer) in zip(calls, answers, strict=True)
            if not error and call[0] == "open"
        ]
        _send(channel, answers, time.monotonic() - began_s, descriptors)


def _send(channel: socket.socket, answers: list[tuple[int, object]], took_s: float, descriptors: list[int]) -> None:
    try:
        message = marshal.dumps((answers, took_s))
        if len(message) > MESSAGE_BYTES:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        socket.send_fds(channel, [message], descriptors)
        for one in descriptors:
            os.close(one)
    except OSError as error:  # too long, say
        channel.send(marshal.dumps((_fitting(answers, (error.errno or errno.EIO, str(error))), took_s)))


def _fitting(answers: list[tuple[int, Any]], why: tuple[int, str]) -> list[tuple[int, Any]]:
    """All short ones, and as many others as there is room for. The rest is asked for again, when less is new."""
    fitting, left_bytes = [], FITTING_BYTES
    for answer in answers:
        size_bytes = len(marshal.dumps(answer))
        fits = size_bytes <= SHORT_BYTES or size_bytes <= left_bytes
        left_bytes -= size_bytes if fits and size_bytes > SHORT_BYTES else 0
        fitting.append(answer if fits else why)
    return fitting


def _as_values(answer: object) -> tuple[int, object]:
    """An error's number and text, or 0 and a value."""
    if isinstance(answer, OSError):
        return answer.errno or errno.EIO, answer.strerror or str(answer)
    if isinstance(answer, SocketGone):
        return GONE, str(answer)
    return 0, tuple(answer) if isinstance(answer, tuple) else answer  # marshal takes no subclass


if __name__ == "__main__":
    with suppress(ConnectionError):  # hostd was killed before it had read the last answer
        main(sys.argv[1:])

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

from hostd.kernel.calls import Here
from hostd.kernel.pidfd import SocketGone

HELLO = b"ready"
MESSAGE_BYTES = 1 << 18
GONE = -1  # instead of an error's number


def main(arguments: list[str]) -> None:
    channel = socket.socket(fileno=int(arguments[0]))
    busy_with = memoryview(mmap.mmap(int(arguments[1]), mmap.PAGESIZE)).cast("q")
    here = Here()
    message = memoryview(bytearray(MESSAGE_BYTES))  # recv() would have the memory mapped and unmapped each time
    channel.send(HELLO)
    while size := channel.recv_into(message):
        calls = marshal.loads(message[:size])
        began_s = time.monotonic()
        answers = []
        for call in calls:
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
        socket.send_fds(channel, [marshal.dumps((answers, took_s))], descriptors)
        for one in descriptors:
            os.close(one)
    except OSError as error:  # too long, say
        failed = [(error.errno or errno.EIO, str(error))] * len(answers)
        channel.send(marshal.dumps((failed, took_s)))


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

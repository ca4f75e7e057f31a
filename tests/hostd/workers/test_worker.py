"""A worker by itself: it ends with hostd, and has nothing to say about it."""

import errno
import marshal
import mmap
import os
import socket
import subprocess
import sys

import pytest

from hostd.workers.worker import FITTING_BYTES, HELLO, MESSAGE_BYTES, _fitting
from hostd.workers.worker_process import WorkerProcess


@pytest.mark.parametrize("unread", [True, False], ids=["answer not read", "answer read"])
def test_it_ends_in_silence_when_hostd_was_killed(unread: bool) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    shared = os.memfd_create("test")
    os.ftruncate(shared, mmap.PAGESIZE)
    descriptors = (theirs.fileno(), shared)
    command = [sys.executable, "-m", "hostd.workers.worker", *map(str, descriptors)]
    with ours, subprocess.Popen(command, pass_fds=descriptors, stderr=subprocess.PIPE) as worker:
        theirs.close()
        os.close(shared)
        assert ours.recv(100) == HELLO
        ours.send(marshal.dumps([]))
        if unread:
            ours.recv(1, socket.MSG_PEEK)  # it has answered
        else:
            ours.recv(4096)
        ours.close()
        assert worker.stderr is not None
        assert worker.stderr.read() == b"" and worker.wait(10) == 0


def test_answers_that_do_not_fit_leave_the_others_their_place() -> None:
    """Of a user with many sockets: the next look finds less that is new."""
    short, long, why = (0, None), (0, bytes(FITTING_BYTES // 3)), (errno.EMSGSIZE, "too long")
    answers = [short, long, short, *[long] * 5, short]
    fitting = _fitting(answers, why)
    assert fitting.count(long) == 2 and fitting.count(why) == 4
    assert [one for one, before in zip(fitting, answers, strict=True) if before is short] == [short] * 3


SO_SNDBUFFORCE = 32


@pytest.mark.root
def test_an_answer_longer_than_any_ends_the_worker_and_nothing_else() -> None:
    process = WorkerProcess(0.0, forked=False)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 21)
    channel, process._channel = process._channel, ours
    with channel, theirs:
        theirs.send(marshal.dumps(([(0, bytes(MESSAGE_BYTES))], 0.0)))
        process._receive()
        assert process.ended
        process.close()

"""A worker by itself: it ends with hostd, and has nothing to say about it."""

import marshal
import mmap
import os
import socket
import subprocess
import sys

import pytest

from hostd.workers.worker import HELLO


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

"""Processes with connections that keep calls on their sockets from returning (workers/hostile_job.py)."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostd.kernel.calls import Call
from hostd.kernel.pidfd import cookie_of, duplicated_socket
from tests.hostd.conftest import next_line

ROOT = Path(__file__).parents[2]


class HostileJob:
    def __init__(self, listener: socket.socket, stack: ExitStack, uid: int | None = None) -> None:
        command = [sys.executable, "-m", "tests.hostd.workers.hostile_job", str(listener.getsockname()[1])]
        command += [] if uid is None else [str(uid)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(self.end)
        self.pid, fd = self._process.pid, int(next_line(self._process))
        self._peer = stack.enter_context(listener.accept()[0])
        with duplicated_socket(self.pid, fd) as theirs:
            self.call: Call = ("info", self.pid, fd, cookie_of(theirs))

    def does(self, what: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        assert next_line(self._process) == "done"

    def end(self) -> None:
        with self._process:
            self._process.kill()


class Jobs:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def start(self, uid: int | None = None) -> HostileJob:
        return HostileJob(self._listener, self._stack, uid)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    with ExitStack() as stack:
        yield Jobs(stack)

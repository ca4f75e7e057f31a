"""A registrar, and processes that hand it something."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostd.registration.registrations import Ended, Registered, Registrations
from tests.hostd.conftest import next_line, wait_until

ROOT = Path(__file__).parents[3]
JOB = """
import os, sys
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.writer import process_writer
writer = process_writer()
record = writer.find(Kind.COLLECTIVE, Source.TORCH, 1, 0, 2, -1)
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Desk:
    """hostd's end, and what it has heard."""

    def __init__(
        self, directory: Path, stack: ExitStack, on_change: Callable[[Registered | Ended], None] | None = None
    ) -> None:
        self.directory, self._stack = directory, stack
        self.path = directory / "run" / "jobs" / "hostd.sock"
        self.there: dict[str, Registered] = {}
        self.again = 0  # times that the same memory was registered again
        self.registrations = Registrations(self.path, on_change)
        stack.callback(self.close)
        wait_until(lambda: self.look() or self.registrations.listens)

    def look(self) -> None:
        for one in self.registrations.receive():
            if isinstance(one, Ended):
                self.there.pop(one.name, None)
            else:
                os.close(one.memory)
                self.again += one.name in self.there
                self.there[one.name] = one

    def pids(self) -> set[int]:
        self.look()
        return {one.pid for one in self.there.values()}

    def refused(self) -> dict[str, int]:
        self.look()
        return {reason: count for reason, count in self.registrations.refused.items() if count}

    def job(self, **env: str) -> "subprocess.Popen[str]":
        """A process that registers by itself."""
        told = {"PACELINE_SOCKET": str(self.path), "PACELINE_SHM_DIR": str(self.directory), "PACELINE_JOB": "a"}
        process = subprocess.Popen(
            [sys.executable, "-c", JOB], cwd=ROOT, env=os.environ | told | env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._stack.callback(end, process)
        assert next_line(process) == "ready"
        return process

    def connect(self) -> socket.socket:
        return self._stack.enter_context(connected(self.path))

    def registrar_descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.registrations.registrar_pid}/fd"))  # noqa: PTH208

    def close(self) -> None:
        self.registrations.close()


def connected(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for _ in range(500):  # as a shim does, but sooner
        try:
            made.settimeout(10.0)
            made.connect(str(path))
            return made
        except BlockingIOError:
            time.sleep(0.01)
    made.close()
    raise AssertionError("it never came")


def end(process: "subprocess.Popen[str]") -> None:
    with process:
        process.kill()


def does(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(tmp_path, stack)

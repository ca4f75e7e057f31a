"""This process as a job, and a monitor on a clock of its own."""

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hostd.kernel.calls import LATE, Answer, Call, NotAnswered
from hostd.kernel.tcp_info import TcpCounters
from hostd.monitor.monitor import FRESH_NS, Monitor
from hostd.monitor.users import Users
from nccl_shim.segment.identity import identity_from_env
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.python_writer import PythonWriter
from paceline.flowcore.messages.events import HostEvent, JobJoined
from paceline.flowcore.model.patterns import FlowId, Role
from tests.hostd.conftest import wait_until

MS = 1_000_000
BURST_BYTES = 1_000_000
LINE_BPS = 1e9  # a burst is 8 ms of it
ITERATIONS = 1000  # that the job says it will do
JOB = f"{os.getuid()}/a"
FLOW = FlowId(JOB, "h0", "h1", Role.RING)


class OwnJob:
    """This process as a job: it sends to 127.0.0.2, which is another host. One that does not announce ends its
    iterations, and nothing counts its bytes."""

    def __init__(self, directory: Path, announces: bool = True) -> None:
        env = {"PACELINE_SHM_DIR": str(directory), "PACELINE_JOB": "a", "RANK": "0", "WORLD_SIZE": "2"}
        env["PACELINE_ITERATIONS"] = str(ITERATIONS)
        self.writer = PythonWriter(identity_from_env(env))
        self.record = self.writer.find(Kind.COLLECTIVE, Source.TORCH, 1, 0, 2, -1) if announces else None
        self._listener = socket.create_server(("127.0.0.2", 0))
        self._socket = socket.create_connection(self._listener.getsockname())
        self._peer, _ = self._listener.accept()

    def announce(self) -> None:
        self.writer.enqueue(self.record, BURST_BYTES, BURST_BYTES)

    def send(self, size_bytes: int) -> None:
        """Until the other side has it and has said so."""
        before = TcpCounters.of(self._socket).acked_bytes
        sending = threading.Thread(target=self._socket.sendall, args=(bytes(size_bytes),))
        sending.start()
        left_bytes = size_bytes
        while left_bytes:
            left_bytes -= len(self._peer.recv(left_bytes))
        sending.join()
        wait_until(lambda: TcpCounters.of(self._socket).acked_bytes >= before + size_bytes)
        self.writer.transmit(self.record, size_bytes, 0)

    def answer(self, size_bytes: int) -> None:
        """The other way."""
        self._peer.sendall(bytes(size_bytes))
        while size_bytes:
            size_bytes -= len(self._socket.recv(size_bytes))

    def iterate(self) -> None:
        self.announce()
        self.send(BURST_BYTES)
        self.writer.end_iteration()

    def close(self) -> None:
        for one in (self._socket, self._peer, self._listener):
            one.close()
        self.writer.finish()


class LateWorker:
    """A worker on a busy machine."""

    def perform(self, calls: Sequence[Call], wait_s: float = 0.0) -> list[Answer]:
        return [NotAnswered(LATE)] * len(calls)

    perform_all = perform


class Watched:
    """A monitor on a clock of its own."""

    def __init__(self, directory: Path, users: Users | None = None) -> None:
        self.heard: list[object] = []
        self.now_ns = 0
        self.monitor = Monitor(
            "h0", {f"127.0.0.{1 + number}": f"h{number}" for number in range(4)}, LINE_BPS, directory,
            lambda flow, sockets: self.heard.append((flow, len(sockets))), users=users,
        )  # fmt: skip

    def step(self) -> list[HostEvent]:
        """To the next time at which it wants to look."""
        self.now_ns = max(self.now_ns, self.monitor.due_ns)
        return self.monitor.poll(self.now_ns)

    def progress(self) -> float:
        """Of the one flow, a moment later."""
        self.now_ns += FRESH_NS
        [(_, sent_bytes)] = self.monitor.progress(self.now_ns, {JOB}).sent_bytes
        return sent_bytes

    def until(self, kind: type) -> list[HostEvent]:
        events: list[HostEvent] = []

        def come() -> bool:  # acknowledgements take their real time
            events.extend(self.step())
            return any(isinstance(event, kind) for event in events)

        wait_until(come)
        return events


@pytest.fixture
def job(tmp_path: Path) -> Iterator[OwnJob]:
    made = OwnJob(tmp_path)
    yield made
    made.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.monitor.close()


def joined(job: OwnJob, watched: Watched) -> None:
    """Iterations until it is known what one of them sends."""
    job.iterate()
    for _ in range(6):
        watched.now_ns += 200 * MS
        if any(isinstance(event, JobJoined) for event in (*watched.step(), *watched.step())):
            return
        job.iterate()
    raise AssertionError("it never joined")

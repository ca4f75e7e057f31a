"""A job's sockets, each counted once: forked processes inherit them, and descriptors are copied."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from socket import create_connection, create_server

import pytest

from hostd.kernel.calls import made_by
from hostd.kernel.sockets import LEAST_DATA_BYTES, DataSocket
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD, TcpCounters
from hostd.monitor.job_tracker import LATE_NS, LAUNCHED_REST_NS, PAUSE_NS, REST_NS, JobTracker
from hostd.monitor.poll_schedule import LOOK_NS
from paceline.flowcore.demand.launched import LaunchedDemand
from paceline.flowcore.messages.events import SHORTEST_BURST_NS
from paceline.flowcore.model.patterns import Role
from tests.hostd.conftest import next_line, wait_until
from tests.hostd.monitor.conftest import LateWorker

pytestmark = pytest.mark.root

HOST_OF = {"127.0.0.1": "h0", "127.0.0.2": "h1"}
ENDS = (Role.RING, "h1")
CLOSE_ON_DEMAND = "import os, sys\nfor line in sys.stdin: os.close(int(line)); print('closed', flush=True)"


class Shared:
    """A socket to another host that several processes of a job have inherited."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        listener = stack.enter_context(create_server(("127.0.0.2", 0)))
        self._socket = stack.enter_context(create_connection(listener.getsockname()))
        self._peer = stack.enter_context(listener.accept()[0])
        self.descriptors = (self._socket.fileno(), os.dup(self._socket.fileno()))
        stack.callback(os.close, self.descriptors[1])
        self.job = JobTracker("a", "h0")
        self.send()

    def holder(self) -> "subprocess.Popen[str]":
        """A process with two descriptors of it."""
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", CLOSE_ON_DEMAND],
            pass_fds=self.descriptors,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    def send(self) -> None:
        before = TcpCounters.of(self._socket).acked_bytes
        self._socket.sendall(bytes(LEAST_DATA_BYTES))
        left_bytes = LEAST_DATA_BYTES
        while left_bytes:
            left_bytes -= len(self._peer.recv(left_bytes))
        wait_until(lambda: TcpCounters.of(self._socket).acked_bytes >= before + LEAST_DATA_BYTES)

    def seen(self, *processes: "subprocess.Popen[str]") -> DataSocket:
        """The only socket of the job, when it consists of these."""
        self.job.consists_of({process.pid: None for process in processes})
        self.job.look(0, HOST_OF, "h0")
        [one] = self.job.sockets.sending[ENDS]
        return one

    def sent_bytes(self) -> int:
        self.job.read(0)
        assert self.job.facts is not None
        return round(self.job.facts.sent_bytes[ENDS] / WIRE_PER_PAYLOAD)


@pytest.fixture
def shared() -> Iterator[Shared]:
    with ExitStack() as stack:
        yield Shared(stack)


def test_an_inherited_socket_counts_once_and_as_long_as_a_process_has_it(shared: Shared) -> None:
    parent, child = shared.holder(), shared.holder()
    first = shared.seen(parent, child)
    assert shared.sent_bytes() == 0
    shared.send()
    assert shared.sent_bytes() == LEAST_DATA_BYTES
    assert shared.seen(child, parent) == first, "it stays with the process where it was found"
    leaving, staying = (parent, child) if first.pid == parent.pid else (child, parent)
    leaving.kill()
    leaving.wait()
    shared.send()
    assert shared.sent_bytes() == LEAST_DATA_BYTES, "out of reach until the next look"
    second = shared.seen(staying)
    assert (second.pid, second.cookie) == (staying.pid, first.cookie)
    assert shared.sent_bytes() == 2 * LEAST_DATA_BYTES


def test_a_copied_descriptor_is_the_same_socket(shared: Shared) -> None:
    process = shared.holder()
    first = shared.seen(process)
    assert shared.seen(process) == first
    assert process.stdin is not None
    process.stdin.write(f"{first.fd}\n")
    process.stdin.flush()
    assert next_line(process) == "closed"
    second = shared.seen(process)
    assert {first.fd, second.fd} == set(shared.descriptors) and second.cookie == first.cookie


@pytest.mark.parametrize(
    ("counted_bytes", "outstanding", "rest_ns"),
    [(1.0, False, REST_NS), (1.0, True, LAUNCHED_REST_NS), (0.0, False, LAUNCHED_REST_NS)],
)
def test_a_job_that_has_launched_more_may_pause_in_the_middle(
    shared: Shared, counted_bytes: float, outstanding: bool, rest_ns: int
) -> None:
    """And one of which nothing counts what it has launched."""
    job = shared.job
    shared.seen(shared.holder())
    shared.send()
    job.read(0)
    assert job.facts is not None
    job.facts = job.facts._replace(counts_early=True, outstanding=outstanding, counted_bytes=counted_bytes)
    rests = []
    for after_ns in (rest_ns - 1, rest_ns):
        job.measure(after_ns)
        rests.append(job.facts.resting)
    assert rests == [False, True]


@pytest.mark.parametrize(("later_ns", "rested"), [(LAUNCHED_REST_NS, False), (3 * LAUNCHED_REST_NS, True)])
def test_a_rest_between_two_looks_is_told_from_what_was_sent(shared: Shared, later_ns: int, rested: bool) -> None:
    """By a link that takes a rest's time for it, or four times that where others share it."""
    shared.job = JobTracker("a", "h0", nic_bps=LEAST_DATA_BYTES * WIRE_PER_PAYLOAD * 8e9 / (LAUNCHED_REST_NS / 4))
    shared.seen(shared.holder())
    shared.job.read(LAUNCHED_REST_NS)
    shared.send()
    shared.job.read(LAUNCHED_REST_NS + later_ns)
    assert shared.job.facts is not None and shared.job.facts.rested is rested
    shared.job.read(LAUNCHED_REST_NS + 2 * later_ns)
    assert not shared.job.facts.rested, "nothing was sent since"


def test_an_answer_that_is_late_does_not_say_that_nothing_was_sent(shared: Shared) -> None:
    job = shared.job
    shared.seen(shared.holder())
    job.read(0)
    shared.send()
    with made_by(LateWorker()):
        job.measure(REST_NS)
        assert job.facts is not None and not job.facts.resting
        assert job.measured_ns == 0, "it is asked again with the next decision"
        job.measure(LATE_NS)
        assert job.facts.resting and job.measured_ns == LATE_NS, "one that hangs its sockets holds no share for ever"
    assert shared.sent_bytes() == LEAST_DATA_BYTES


def test_while_an_answer_is_late_nothing_is_concluded_from_what_counters_say(shared: Shared) -> None:
    shared.seen(shared.holder())
    shared.job.read(0)
    before = shared.job.facts
    shared.send()
    with made_by(LateWorker()):
        assert shared.job.read(REST_NS) == [] and shared.job.facts is before
    shared.job.read(LATE_NS)
    assert shared.job.facts is not before and not shared.job.facts.resting


def test_turns_must_last_as_long_as_eight_looks(shared: Shared) -> None:
    for finest_ns, least_ns in ((LOOK_NS, SHORTEST_BURST_NS), (5 * LOOK_NS, 40 * LOOK_NS)):
        shared.job.schedule(0, 1e9, finest_ns=finest_ns)
        assert shared.job.demand.least_bytes == 0.0, "no link speed is known"
        job = JobTracker("a", "h0", nic_bps=1e9)
        job.schedule(0, 1e9, finest_ns=finest_ns)
        assert job.demand.least_bytes == pytest.approx(least_ns / 8)


def test_sockets_of_a_job_over_nccl_are_read_while_it_computes_and_not_while_it_hangs(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next burst may be held up in them."""
    job = shared.job
    shared.seen(shared.holder())
    job.read(0)
    job.measure(REST_NS)
    assert job.is_quiet(REST_NS), "it announces its bursts"
    monkeypatch.setattr(LaunchedDemand, "paced", True)
    job.demand = LaunchedDemand("a", "h0")
    assert not job.is_quiet(PAUSE_NS - 1)
    assert job.is_quiet(PAUSE_NS)

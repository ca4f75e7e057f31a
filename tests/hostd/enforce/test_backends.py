"""What every enforcing backend owes: limits that hold, a way back to exactly where it began, and no surprises."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.testbed.impair import Impairment, heal_arrivals, impair_arrivals
from bench.testbed.namespace import Namespace
from hostd.enforce.base import Backend
from hostd.enforce.htb import HtbBackend
from hostd.enforce.pacing import PacingBackend
from hostd.enforce.transport import Option, Transport
from hostd.kernel.calls import counters_of
from hostd.kernel.pidfd import cookie_of, duplicated_socket
from hostd.kernel.sockets import DataSocket, own_namespace
from hostd.kernel.tcp_info import TcpCounters
from hostd.safety.undo_log import UndoLog, release
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from tests.hostd.conftest import FLOW, HERE, HERE6, PORT, THERE, THERE6, Wire, next_line, wait_until

pytestmark = pytest.mark.root

Make = Callable[[UndoLog], Backend]
LINK_BPS = 1e9
TRANSPORT = Transport("reno", min_rto_ms=40.0)
BACKENDS: dict[str, Make] = {
    "htb": lambda undo_log: HtbBackend(undo_log, lambda device: LINK_BPS, transport=TRANSPORT),
    "pacing": lambda undo_log: PacingBackend(undo_log, LINK_BPS, small_tso_bursts=True, transport=TRANSPORT),
}


@pytest.fixture(params=BACKENDS)
def make(request: pytest.FixtureRequest) -> Make:
    return BACKENDS[request.param]


@pytest.fixture
def undo_log_path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "lease.json"


def hold(flow: FlowId, rate_bps: float) -> Limit:
    return Limit(flow, rate_bps, rate_bps)


def test_a_limit_holds_changes_and_is_read_back(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    job = wire.send(2)
    sockets = job.sockets(2)
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        assert backend.attach(FLOW, sockets) == []
        for rate_bps in (20e6, 100e6):
            assert backend.apply([hold(FLOW, rate_bps)]) == []
            job.comes_to(sockets, 0.5 * rate_bps, 1.2 * rate_bps)
            assert backend.read_back()[FLOW].ceiling_bps == pytest.approx(rate_bps, rel=1e-6)
        backend.apply([hold(FLOW, UNLIMITED)])
        job.comes_to(sockets, 300e6)
        assert backend.close() == []


def test_closing_restores_everything(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    sockets = wire.send(2).sockets(2)
    before = wire.state(sockets)
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        backend.attach(FLOW, sockets)
        backend.apply([hold(FLOW, 50e6)])
        assert wire.state(sockets) != before
        assert backend.close() == []
    assert wire.state(sockets) == before
    assert not undo_log_path.exists()


def test_sockets_have_the_congestion_control_named_while_they_are_held(
    wire: Wire, make: Make, undo_log_path: Path
) -> None:
    wire.sink()
    sockets = wire.send().sockets()
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        assert not has(sockets, TRANSPORT.always())
        backend.attach(FLOW, sockets)
        assert has(sockets, TRANSPORT.always())
        backend.detach(FLOW)
        assert not has(sockets, TRANSPORT.always())
        backend.close()


def read(sockets: list[DataSocket]) -> dict[int, TcpCounters]:
    answers = zip(sockets, counters_of(sockets), strict=True)
    return {one.cookie: counters for one, counters in answers if isinstance(counters, TcpCounters)}


def test_sockets_that_lose_packets_notice_it_soon(
    wire: Wire, make: Make, undo_log_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TRANSPORT.where_lossy(True), "needs Linux 6.15"
    monkeypatch.setattr("paceline.flowcore.detect.losses.READ_BYTES", 100_000)  # a twentieth is soon seen

    def becomes(lossy: bool) -> None:
        wait_until(
            lambda: backend.watch_losses(read(sockets)) == [] and has(sockets, TRANSPORT.where_lossy(True)) is lossy
        )

    wire.sink()
    sockets = wire.send().sockets()
    with wire.here.enter():
        before = wire.state(sockets)
        backend = make(UndoLog(undo_log_path))
        backend.attach(FLOW, sockets)
        with losing(wire.there):
            becomes(True)
        becomes(False)
        with losing(wire.there):
            becomes(True)
        backend.close()
        assert wire.state(sockets) == before


@contextmanager
def losing(there: Namespace) -> Iterator[None]:
    """A twentieth of what arrives."""
    impair_arrivals(there, there.index_of("eth0"), Impairment(loss=0.05))
    try:
        yield
    finally:
        heal_arrivals(there)


def has(sockets: tuple[DataSocket, ...], wanted: dict[Option, bytes]) -> bool:
    [one] = sockets
    with duplicated_socket(one.pid, one.fd, one.cookie) as theirs:
        return all(theirs.getsockopt(*option, len(value)) == value for option, value in wanted.items())


def test_a_limit_may_come_before_the_sockets(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    sockets = wire.send().sockets()
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        assert backend.apply([hold(FLOW, 30e6)]) == []
        assert backend.attach(FLOW, sockets) == []
        assert backend.read_back()[FLOW].ceiling_bps == pytest.approx(30e6, rel=1e-6)
        backend.close()


def test_a_detached_flow_runs_free_with_its_sockets_as_before(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    job = wire.send()
    sockets = job.sockets()
    *_, options = wire.state(sockets)
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        backend.attach(FLOW, sockets)
        backend.apply([hold(FLOW, 20e6)])
        assert backend.detach(FLOW) == []
        assert backend.detach(FLOW) == []  # twice is no harm
        job.comes_to(sockets, 300e6)
        *_, now = wire.state(sockets)
        assert now == options
        backend.close()


def test_a_connection_closes_normally_while_it_is_controlled(wire: Wire, make: Make, undo_log_path: Path) -> None:
    sink, job = wire.sink(), wire.send()
    sockets = job.sockets()
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        backend.attach(FLOW, sockets)
        backend.apply([hold(FLOW, 400e6)])
        assert job.process.stdin is not None
        job.process.stdin.write("close\n")
        job.process.stdin.flush()
        assert next_line(sink) == "fin"
        # Pacing finds the socket gone; a class does not care.
        assert len(backend.apply([hold(FLOW, 50e6)])) == (1 if backend.name == "pacing" else 0)
        assert backend.attach(FLOW, []) == []
        assert backend.close() == []


def test_a_job_killed_mid_slot_is_an_error_and_not_an_exception(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    job = wire.send(3)
    sockets = job.sockets(3)
    before = wire.state()
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        backend.attach(FLOW, sockets[:2])
        os.kill(job.pid, signal.SIGKILL)
        job.process.wait()
        backend.apply([hold(FLOW, 50e6)])
        errors = backend.attach(FLOW, sockets)  # it was found before it died
        assert errors and all(error.flow == FLOW and "ended" in error.reason for error in errors)
        backend.read_back()
        assert all("ended" in error.reason for error in backend.refresh())
        assert backend.detach(FLOW) == []
        assert backend.close() == []
    assert wire.state() == before


def test_descriptors_do_not_grow_while_jobs_come_and_go(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    sockets = wire.send(4).sockets(4)
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))

        def life() -> None:
            backend.attach(FLOW, sockets)
            for rate_bps in range(10, 20):
                backend.apply([hold(FLOW, rate_bps * 1e6)])
            backend.read_back()
            backend.refresh()
            backend.detach(FLOW)

        life()
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        for _ in range(20):
            life()
        assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
        backend.close()


def test_ipv6(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink(THERE6, PORT + 1)
    job = wire.send(1, THERE6, PORT + 1)
    sockets = job.sockets()
    assert {(one.local, one.remote) for one in sockets} == {(HERE6, THERE6)}
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        assert backend.attach(FLOW, sockets) == []
        backend.apply([hold(FLOW, 50e6)])
        job.comes_to(sockets, 25e6, 60e6)
        backend.close()


def test_a_successor_takes_back_what_a_crash_left_behind(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    sockets = wire.send().sockets()
    before = wire.state(sockets)
    with wire.here.enter():
        crashed = make(UndoLog(undo_log_path))
        crashed.attach(FLOW, sockets)
        crashed.apply([hold(FLOW, 50e6)])
        assert wire.state(sockets) != before
        successor = UndoLog(undo_log_path)
        assert successor.leftovers == {}
        assert wire.state(sockets) == before
        crashed.close()


def test_a_socket_stays_held_through_whichever_descriptor_is_left(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    with wire.here.enter():
        ours = socket.create_connection((str(THERE.ip), PORT))
        copy = ours.dup()
        one, other = (
            DataSocket(os.getpid(), it.fileno(), cookie_of(it), str(HERE.ip), str(THERE.ip), PORT, own_namespace())
            for it in (ours, copy)
        )
        before = wire.state((one,))
        backend = make(UndoLog(undo_log_path))
        backend.apply([hold(FLOW, 50e6)])
        assert backend.attach(FLOW, [one]) == []
        held = wire.state((one,))
        ours.close()
        assert backend.attach(FLOW, [other]) == []
        assert wire.state((other,)) == held != before
        assert release(undo_log_path) == {}  # as the guardian would
        assert wire.state((other,)) == before
        backend.close()
        copy.close()


def test_a_socket_out_of_reach_is_not_called_held_and_held_later(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    there = (str(THERE.ip), PORT)
    with wire.here.enter(), socket.socket() as other, socket.create_connection(there) as ours:
        name = (str(HERE.ip), *there, own_namespace())
        one = DataSocket(os.getpid(), ours.fileno(), cookie_of(ours), *name)
        before = wire.state((one,))
        backend = make(UndoLog(undo_log_path))
        backend.apply([hold(FLOW, 50e6)])
        with ours.dup() as away:
            os.dup2(other.fileno(), ours.fileno())  # out of reach for a moment
            [error] = backend.attach(FLOW, [one])
            assert error.flow == FLOW and "another socket" in error.reason
            assert FLOW not in backend.read_back()
            assert [error] == backend.refresh()
            os.dup2(away.fileno(), ours.fileno())
        assert backend.refresh() == []
        assert backend.read_back()[FLOW].ceiling_bps == pytest.approx(50e6, rel=1e-6)
        assert wire.state((one,))[-1] != before[-1], "the socket itself was told"
        assert backend.close() == [] and wire.state((one,)) == before


def test_a_job_that_starts_anew_on_the_same_flow(wire: Wire, make: Make, undo_log_path: Path) -> None:
    wire.sink()
    first, second = wire.send(), wire.send()
    with wire.here.enter():
        backend = make(UndoLog(undo_log_path))
        old, new = first.sockets(), second.sockets()
        backend.apply([hold(FLOW, 40e6)])
        backend.attach(FLOW, old)
        assert backend.attach(FLOW, new) == []
        wait_until(lambda: first.rate_bps(old, 0.2) > 200e6)
        second.comes_to(new, 20e6, 50e6)
        backend.close()

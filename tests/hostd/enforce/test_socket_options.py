"""Options of sockets: on record as long as they are changed, and not changed where there is no way back."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from bench.testbed.namespace import Namespace
from hostd.enforce.control_connections import LOOK_EVERY
from hostd.enforce.socket_options import SO_PRIORITY, SocketOptions
from hostd.enforce.transport import TCP_CONGESTION, TCP_RTO_MIN_US, Transport
from hostd.kernel.calls import made_by
from hostd.kernel.pidfd import cookie_of
from hostd.kernel.sockets import DataSocket, own_namespace
from hostd.kernel.tcp_info import TcpCounters
from hostd.safety.undo_log import UndoLog, _read
from hostd.workers.pool import Workers
from paceline.flowcore.detect.losses import Losses
from tests.hostd.conftest import wait_until

pytestmark = pytest.mark.root

RTO_MIN_US = Path("/proc/sys/net/ipv4/tcp_rto_min_us")
TRANSPORT = Transport(min_rto_ms=40.0)


@pytest.fixture
def namespace() -> Iterator[None]:
    with Namespace("one") as one, one.enter():
        yield


def handle(one: socket.socket) -> DataSocket:
    return DataSocket(os.getpid(), one.fileno(), cookie_of(one), "127.0.0.1", "127.0.0.1", 0, own_namespace())


def read(*sockets: socket.socket) -> dict[int, TcpCounters]:
    return {cookie_of(one): TcpCounters.of(one) for one in sockets}


def least_us(one: socket.socket) -> int:
    return one.getsockopt(*TCP_RTO_MIN_US)


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("sysctl_us", [3_000, 20_000, 300_000])
def test_a_hosts_own_choice_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sysctl_us: int) -> None:
    """Shorter than ours already; or beyond what a socket may be told, so that there would be no way back."""
    assert TRANSPORT.where_lossy(False), "needs Linux 6.15"
    RTO_MIN_US.write_text(str(sysctl_us))
    monkeypatch.setattr(Losses, "look", lambda *_: True)
    undo_log = UndoLog(tmp_path / "lease.json")
    sockets = SocketOptions(undo_log, SO_PRIORITY, TRANSPORT)
    with socket.socket() as one:
        before_us = least_us(one)
        assert sockets.record([handle(one)], by_itself=False) == ([handle(one)], [])
        assert sockets.watch_losses(read(one)) == [] and least_us(one) == before_us
        assert sockets.restore([handle(one)]) == []
        assert sockets.record([handle(one)], by_itself=False) == ([handle(one)], [])
        assert undo_log.close() == {} and not undo_log.path.exists()


def test_what_is_taken_back_late_is_taken_back_all_the_same(tmp_path: Path) -> None:
    """The process that makes the calls was not scheduled for a while: no trouble, and no socket stays changed."""
    undo_log, workers = UndoLog(tmp_path / "lease.json"), Workers()
    sockets = SocketOptions(undo_log, SO_PRIORITY, TRANSPORT)
    with closing(workers), made_by(workers), socket.socket() as one:
        wait_until(lambda: sockets.record([handle(one)], by_itself=False)[0])
        wait_until(lambda: not sockets.set([handle(one)], SO_PRIORITY, (5).to_bytes(4, sys.byteorder)))
        worker = psutil.Process(workers._of_user[os.getuid()].process.pid)
        worker.suspend()
        assert sockets.restore([handle(one)]) == []
        assert one.getsockopt(*SO_PRIORITY) == 5
        worker.resume()
        wait_until(lambda: undo_log.take_back_owed() == {})
        assert one.getsockopt(*SO_PRIORITY) == 0 and _read(undo_log.path) == {}


@pytest.mark.usefixtures("namespace")
def test_the_wait_is_on_record_only_while_it_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TRANSPORT.where_lossy(False), "needs Linux 6.15"
    undo_log = UndoLog(tmp_path / "lease.json")
    sockets = SocketOptions(undo_log, SO_PRIORITY, TRANSPORT)
    with socket.socket() as one:
        before_us = least_us(one)
        sockets.record([handle(one)], by_itself=False)
        for lossy, now_us, entries in ((True, 40_000, 2), (False, before_us, 1), (True, 40_000, 2)):
            monkeypatch.setattr(Losses, "look", lambda *_, it=lossy: it)
            assert sockets.watch_losses(read(one)) == [] == sockets.watch_losses(read(one))
            assert (least_us(one), len(_read(undo_log.path))) == (now_us, entries)
        assert undo_log.close() == {} and least_us(one) == before_us


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize(("by_itself", "set_to"), [(True, b"bbr"), (False, b"cubic")])
def test_a_flow_by_itself_keeps_its_rate_through_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_itself: bool, set_to: bytes
) -> None:
    def congestion_control() -> bytes:
        return one.getsockopt(*TCP_CONGESTION, 16).rstrip(b"\0")

    monkeypatch.setattr(Losses, "look", lambda *_: True)
    undo_log = UndoLog(tmp_path / "lease.json")
    sockets = SocketOptions(undo_log, SO_PRIORITY, TRANSPORT)
    with socket.socket() as one:
        one.setsockopt(*TCP_CONGESTION, b"cubic")
        sockets.record([handle(one)], by_itself)
        assert sockets.watch_losses(read(one)) == [] and congestion_control() == set_to
        assert undo_log.close() == {} and congestion_control() == b"cubic"


@pytest.mark.usefixtures("namespace")
def test_where_data_gets_lost_small_connections_to_the_same_host_notice_soon_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TRANSPORT.where_lossy(False), "needs Linux 6.15"
    undo_log = UndoLog(tmp_path / "lease.json")
    sockets = SocketOptions(undo_log, SO_PRIORITY, TRANSPORT)

    def look(lossy: bool) -> None:
        monkeypatch.setattr(Losses, "look", lambda *_: lossy)
        for _ in range(LOOK_EVERY):
            assert sockets.watch_losses(read(data)) == []

    with ExitStack() as stack:
        here, elsewhere = (stack.enter_context(socket.create_server((host, 0))) for host in ("127.0.0.1", "127.0.0.2"))

        def connection(server: socket.socket) -> socket.socket:
            one = stack.enter_context(socket.create_connection(server.getsockname()))
            stack.enter_context(server.accept()[0])
            return one

        data, small, other = connection(here), connection(here), connection(elsewhere)
        before_us = least_us(small)
        sockets.record([handle(data)], by_itself=False)
        look(lossy=True)
        late = connection(here)
        look(lossy=True)
        assert [least_us(one) for one in (data, small, late)] == [40_000] * 3
        assert least_us(other) == before_us
        late.close()
        look(lossy=True)
        on_record = [undo.cookie for undo in _read(undo_log.path).values()]
        assert cookie_of(small) in on_record and len(on_record) == len(set(on_record)) + 1  # two options of the data's
        look(lossy=False)
        assert [least_us(one) for one in (data, small)] == [before_us] * 2 and len(_read(undo_log.path)) == 1
        look(lossy=True)
        assert least_us(small) == 40_000
        assert sockets.restore([handle(data)]) == [] and least_us(small) == before_us
        assert undo_log.close() == {}


@dataclass
class Loses:
    """In place of Losses."""

    lossy: bool

    def look(self, *_: float) -> bool:
        return self.lossy


@pytest.mark.usefixtures("namespace")
def test_a_control_connection_that_loses_packets_itself_keeps_its_short_wait(tmp_path: Path) -> None:
    assert TRANSPORT.where_lossy(True), "needs Linux 6.15"
    undo_log = UndoLog(tmp_path / "lease.json")
    sockets = SocketOptions(undo_log, SO_PRIORITY, TRANSPORT)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        socket.create_connection(server.getsockname()) as other,
    ):
        before_us = least_us(one)
        sockets.record([handle(one), handle(other)], by_itself=True)
        first, second = Loses(True), Loses(False)
        sockets._losses |= {cookie_of(one): first, cookie_of(other): second}
        for first.lossy, second.lossy in ((True, False), (True, True), (False, True), (False, True)):
            for _ in range(LOOK_EVERY):
                assert sockets.watch_losses(read(one, other)) == []
            assert [least_us(one), least_us(other)] == [40_000, 40_000], "the first now is beside the second"
        second.lossy = False
        assert sockets.watch_losses(read(one, other)) == []
        assert [least_us(one), least_us(other)] == [before_us] * 2
        assert undo_log.close() == {}

"""What was really sent: acknowledged bytes, over all sockets a flow ever had."""

import os
import socket
from collections.abc import Iterator

import pytest

from hostd.kernel.flow_meter import FlowMeter
from hostd.kernel.pidfd import cookie_of
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from tests.hostd.conftest import wait_until

pytestmark = pytest.mark.root


class Connection:
    def __init__(self, listener: socket.socket) -> None:
        self.ours = socket.create_connection(listener.getsockname())
        self.theirs, _ = listener.accept()
        self.handle = DataSocket(os.getpid(), self.ours.fileno(), cookie_of(self.ours), "", "", 0, 0)

    def send(self, size_bytes: int) -> None:
        self.ours.sendall(bytes(size_bytes))
        while size_bytes:
            size_bytes -= len(self.theirs.recv(size_bytes))

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def connect() -> "Iterator[type[Connection]]":
    made = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def make() -> Connection:
            made.append(Connection(listener))
            return made[-1]

        yield make
        for one in made:
            one.close()


def test_acknowledged_bytes_are_counted_once(connect) -> None:
    one = connect()
    meter = FlowMeter()
    meter.read([one.handle])
    one.send(100_000)
    wait_until(lambda: meter.read([one.handle]) >= 100_000)
    assert meter.sent_bytes == 100_000
    assert meter.read([one.handle]) == 100_000
    assert meter.waiting_bytes == 0


def test_what_was_sent_before_the_first_look_is_not_counted(connect) -> None:
    one = connect()
    one.send(50_000)
    wait_until(lambda: TcpCounters.of(one.ours).acked_bytes >= 50_000)
    assert FlowMeter().read([one.handle]) == 0


def test_nothing_is_lost_or_counted_twice_where_one_meter_takes_over_from_another(connect) -> None:
    one = connect()
    first, second = FlowMeter(), FlowMeter()
    first.read([one.handle])
    one.send(30_000)
    wait_until(lambda: first.read([one.handle]) == 30_000)
    one.send(20_000)
    second.take_over(first)
    wait_until(lambda: second.read([one.handle]) == 20_000)


def test_the_sum_survives_sockets_that_close(connect) -> None:
    first, second = connect(), connect()
    meter = FlowMeter()
    meter.read([first.handle, second.handle])
    first.send(30_000)
    wait_until(lambda: meter.read([first.handle, second.handle]) == 30_000)
    first.close()
    second.send(20_000)
    wait_until(lambda: meter.read([first.handle, second.handle]) == 50_000)
    assert meter.lost > 0
    assert meter.read([]) == 50_000


def test_bytes_that_the_peer_does_not_take_are_waiting_not_sent(connect) -> None:
    one = connect()
    meter = FlowMeter()
    meter.read([one.handle])
    one.ours.setblocking(False)
    written = 0
    with pytest.raises(BlockingIOError):
        while True:
            written += one.ours.send(bytes(1 << 20))
    wait_until(lambda: meter.read([one.handle]) + meter.waiting_bytes <= written)
    assert 0 < meter.waiting_bytes < written
    assert meter.sent_bytes < written


def test_counters_of_an_idle_connection(connect) -> None:
    counters = TcpCounters.of(connect().ours)
    assert counters.waiting_bytes == counters.retransmitted_bytes == 0 and counters.mss_bytes > 500

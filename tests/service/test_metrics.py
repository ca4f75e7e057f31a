"""Scraped over real sockets."""

import asyncio
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from prometheus_client import Counter

from paceline.service import metrics
from paceline.service.metrics import MetricsServer, new_registry

pytestmark = pytest.mark.slow


def scrape(server: MetricsServer) -> str:
    with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=20) as answer:
        return answer.read().decode()


def wait_until(holds: Callable[[], object], limit_s: float = 20.0) -> None:
    until_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < until_s, "it never came"
        time.sleep(0.01)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
def test_the_real_port_is_told(address: str) -> None:
    registry = new_registry()
    Counter("paceline_test", "a counter", registry=registry).inc(3)
    with MetricsServer(registry, address) as server:
        assert server.port > 0
        assert "paceline_test_total 3.0" in scrape(server)
        assert "process_resident_memory_bytes" in scrape(server)


def test_daemons_in_one_process_do_not_mix() -> None:
    registries = [new_registry(), new_registry()]
    for number, registry in enumerate(registries):
        Counter("paceline_test", "the same name in both", registry=registry).inc(number)
    with MetricsServer(registries[0], "127.0.0.1:0") as one, MetricsServer(registries[1], "127.0.0.1:0") as other:
        assert "paceline_test_total 0.0" in scrape(one)
        assert "paceline_test_total 1.0" in scrape(other)


def test_a_busy_port_is_named() -> None:
    with (
        MetricsServer(new_registry(), "127.0.0.1:0") as first,
        pytest.raises(OSError, match=f"cannot serve metrics on 127.0.0.1:{first.port}: Address already in use"),
    ):
        MetricsServer(new_registry(), str(first.address))


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(OSError, match="cannot serve metrics on 203"):
        MetricsServer(new_registry(), "203.0.113.1:0")  # reserved for documentation


def test_close_frees_port_and_thread() -> None:
    before = threading.active_count()
    server = MetricsServer(new_registry(), "127.0.0.1:0")
    server.close()
    assert threading.active_count() == before
    MetricsServer(new_registry(), str(server.address)).close()


def healthz(server: MetricsServer) -> int:
    """The status of the answer."""
    with socket.create_connection(server.address, timeout=20) as peer:
        peer.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        return int(peer.makefile().readline().split()[1])


async def test_health_is_what_the_main_loop_says_of_itself(monkeypatch) -> None:
    monkeypatch.setattr(metrics, "ANSWER_S", 20.0)
    said = [True, False]
    asked_on: list[threading.Thread] = []

    def alive() -> bool:
        asked_on.append(threading.current_thread())
        return said.pop(0)

    with MetricsServer(new_registry(), "127.0.0.1:0", alive) as server:
        assert await asyncio.to_thread(healthz, server) == 200
        assert await asyncio.to_thread(healthz, server) == 503
        assert "process_" in await asyncio.to_thread(scrape, server)
    assert asked_on == 2 * [threading.current_thread()]


async def test_a_loop_that_hangs_is_not_healthy(monkeypatch) -> None:
    monkeypatch.setattr(metrics, "ANSWER_S", 0.1)
    with MetricsServer(new_registry(), "127.0.0.1:0", lambda: True) as server:
        assert healthz(server) == 503  # it waits here for the answer, and can say nothing itself
        assert "process_" in scrape(server)


def test_a_slow_peer_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that sends nothing nor one that does not read its page, nor more of them than there are threads."""
    registry = new_registry()
    counter = Counter("paceline_test", "more than the buffers of a socket", ["label"], registry=registry)
    for number in range(400):
        counter.labels(f"{number}-{'x' * 20_000}")
    monkeypatch.setattr(metrics, "REQUEST_TIMEOUT_S", 600.0)
    monkeypatch.setattr(metrics._Handler, "timeout", 600.0)
    before = threading.active_count()
    with MetricsServer(registry, "127.0.0.1:0") as server, ExitStack() as slow:
        for number in range(2 * metrics.MOST_CONNECTIONS):
            peer = slow.enter_context(socket.create_connection(server.address, timeout=20))
            if number % 2:
                peer.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert healthz(server) == 200
        assert "process_" in scrape(server)
        assert threading.active_count() <= before + 1 + metrics.MOST_CONNECTIONS
    wait_until(lambda: threading.active_count() == before)


def test_a_trickle_does_not_keep_a_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "REQUEST_TIMEOUT_S", 0.5)
    with (
        MetricsServer(new_registry(), "127.0.0.1:0") as server,
        socket.create_connection(server.address, timeout=0.05) as peer,
    ):

        def is_closed() -> bool:
            try:
                peer.sendall(b"x")
                return peer.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        wait_until(is_closed)


def test_a_scraper_that_sends_nothing_or_rubbish_stops_nobody(monkeypatch, capfd) -> None:
    assert metrics._Handler.timeout == metrics.REQUEST_TIMEOUT_S
    monkeypatch.setattr(metrics._Handler, "timeout", 0.05)
    with MetricsServer(new_registry(), "127.0.0.1:0") as server:
        with socket.create_connection(server.address, timeout=20) as mute:
            assert "process_" in scrape(server)
            assert mute.recv(1) == b""  # given up
        for rubbish in (b"\r\n\r\n", b"\x00\xff\n\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 100_000):
            with socket.create_connection(server.address, timeout=20) as peer:
                peer.sendall(rubbish)
        assert "process_" in scrape(server)
    assert capfd.readouterr() == ("", "")

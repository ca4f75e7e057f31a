"""Prometheus reads http://ADDRESS/metrics. One registry per daemon, so that several can live in one process.

A thread for each connection, so that a slow reader delays no other. What scrapers can cost the daemon is bounded: one
page is made at a time, a connection lasts REQUEST_TIMEOUT_S at most, however slowly it trickles, and there are
MOST_CONNECTIONS of them. One more takes the place of the oldest: a scrape takes milliseconds, so the oldest is stuck.

A supervisor that restarts hanging daemons asks http://ADDRESS/healthz instead. That this thread answers says nothing
about the daemon: the question goes to the daemon's event loop, and without an answer within ANSWER_S the status is 503.
"""

import asyncio
import logging
import math
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Self, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

from paceline.service.address import HostPort, host_port

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

REQUEST_TIMEOUT_S = 5.0
MOST_CONNECTIONS = 8
ANSWER_S = 1.0
POLL_S = 0.2  # how long `close` may take; waking five times a second has no measurable cost
HUNG_UP_S = -math.inf  # for when a connection began
_Request = socket.socket | tuple[bytes, socket.socket]
_log = logging.getLogger(__name__)


def new_registry() -> CollectorRegistry:
    """Empty but for the process's own CPU, memory and file descriptors."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    return registry


class MetricsServer:
    """Serves a registry from construction to `close`. Port 0 takes a free one; `address` has the real one.

    With `alive`, which is called on the event loop that runs now, it also says whether the daemon is alive.
    """

    def __init__(self, registry: CollectorRegistry, address: str, alive: Callable[[], bool] | None = None) -> None:
        wanted = host_port(address)
        try:
            self._server = _Server(wanted)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(error.errno, f"cannot serve metrics on {wanted}: {reason}") from None
        self._metrics, self._making = make_wsgi_app(registry), Lock()
        self._alive, self._loop = alive, asyncio.get_running_loop() if alive else None
        self._server.set_app(self._app)
        self.address = HostPort(self._server.server_name, self._server.server_port)
        self._thread = Thread(target=self._server.serve_forever, args=(POLL_S,), name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self.address.port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up_old(math.inf)
        self._thread.join()

    def _app(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            with self._making:
                return cast(Iterable[bytes], self._metrics(environ, start_response))
        healthy = self._is_healthy()
        status = "200 OK" if healthy else "503 Service Unavailable"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [b"alive\n" if healthy else b"the main loop makes no progress\n"]

    def _is_healthy(self) -> bool:
        alive, loop = self._alive, self._loop
        if alive is None or loop is None:
            return True
        answer: Future[bool] = Future()
        try:
            loop.call_soon_threadsafe(lambda: answer.set_result(alive()))
            return answer.result(ANSWER_S)
        except (TimeoutError, RuntimeError):  # RuntimeError: the loop is closed
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not logged."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # `close` waits for none of them: what one says of health may wait for the closing thread

    def __init__(self, wanted: HostPort) -> None:
        family, _, _, _, address = socket.getaddrinfo(*wanted, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        self._begun_s: dict[socket.socket, float] = {}  # connections that have a thread, oldest first
        self._ended = Condition()  # of a connection; guards _begun_s, and no socket is closed while it is hung up
        super().__init__(cast(tuple[str, int], address), _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # not HTTPServer's, which asks DNS for the machine's name and may wait for it
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: _Request, client_address: object) -> None:
        with self._ended:
            if len(self._begun_s) >= MOST_CONNECTIONS:
                self._hang_up([one for one, begun_s in self._begun_s.items() if begun_s > HUNG_UP_S][:1])
                self._ended.wait_for(lambda: len(self._begun_s) < MOST_CONNECTIONS, ANSWER_S)
            if has_room := len(self._begun_s) < MOST_CONNECTIONS:
                self._begun_s[_socket(request)] = time.monotonic()
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: _Request) -> None:
        """At the end of a connection's thread."""
        with self._ended:
            self._begun_s.pop(_socket(request), None)
            super().shutdown_request(request)
            self._ended.notify()

    def service_actions(self) -> None:
        """At every pass of the loop."""
        self.hang_up_old(time.monotonic() - REQUEST_TIMEOUT_S)

    def hang_up_old(self, before_s: float) -> None:
        with self._ended:
            self._hang_up([one for one, begun_s in self._begun_s.items() if begun_s < before_s])

    def _hang_up(self, connections: Iterable[socket.socket]) -> None:
        """Wakes the threads that wait for these peers."""
        for one in connections:
            self._begun_s[one] = HUNG_UP_S
            with suppress(OSError):  # the peer has gone
                one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        _log.debug("a scrape ended early", exc_info=True)  # not a traceback on stderr


def _socket(request: _Request) -> socket.socket:
    """socketserver's types know datagrams as well."""
    assert isinstance(request, socket.socket)
    return request

"""As much of HTTP/1.1 as a page needs that is only read: GET and HEAD, one request a connection, events.

What a client can cost is bounded: MAX_HEAD_BYTES of request within REQUEST_S, MOST_CONNECTIONS at a time, and a client
that does not read is hung up on. Where the server listens on loopback, a request must name loopback as its host: a page
of the web whose own name is pointed here (DNS rebinding) is refused. Nothing may be loaded from elsewhere, and nothing
inline runs (HEADERS), so that a job's name that looks like HTML stays text.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from paceline.service.address import HostPort, stays_on_this_machine

REQUEST_S, WRITE_S = 5.0, 10.0
MAX_HEAD_BYTES = 16_384
MOST_CONNECTIONS = 64
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}
_LOCAL_HOST = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """`events`: what follows the body, one by one, until the client goes."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    events: AsyncGenerator[bytes, None] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def as_json(document: object) -> Response:
    return Response(json.dumps(document, allow_nan=False).encode(), "application/json")


def refusal(status: HTTPStatus, why: str = "") -> Response:
    return Response(f"{status.value} {status.phrase}{why and ': ' + why}\n".encode(), status=status)


Answer = Callable[[Request], Awaitable[Response]]


class HttpServer:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._connections = 0
        self._local = True
        self._server: asyncio.Server | None = None

    async def open(self, wanted: HostPort) -> HostPort:
        """Where it listens now: port 0 takes a free one. Raises OSError."""
        self._local = stays_on_this_machine(str(wanted))
        self._server = await asyncio.start_server(self._serve, wanted.host, wanted.port, limit=MAX_HEAD_BYTES)
        host, port = self._server.sockets[0].getsockname()[:2]
        return HostPort(host, port)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections > MOST_CONNECTIONS:
                response, with_body = refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections"), True
            else:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S)
                response, with_body = await self._respond(head.decode("latin-1"))
            await self._write(writer, _head(response))
            if with_body:
                await self._write(writer, response.body)
                if response.events is not None:
                    await self._send_events(reader, writer, response.events)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no request, or a client that went away
        finally:
            self._connections -= 1
            writer.close()

    async def _respond(self, head: str) -> tuple[Response, bool]:
        """And whether the body is wanted."""
        line, *fields = head.split("\r\n")
        method, _, rest = line.partition(" ")
        target, _, version = rest.rpartition(" ")
        if not version.startswith("HTTP/1.") or not target.startswith("/"):
            return refusal(HTTPStatus.BAD_REQUEST), True
        hosts = [value.strip() for name, _, value in (one.partition(":") for one in fields) if name.lower() == "host"]
        if self._local and not (len(hosts) == 1 and _LOCAL_HOST.fullmatch(hosts[0])):
            return refusal(HTTPStatus.FORBIDDEN, "ask for it as localhost or 127.0.0.1"), True
        if method not in ("GET", "HEAD"):
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, "everything here is only read"), True
        try:
            parts = urlsplit(target)
            request = Request(parts.path, dict(parse_qsl(parts.query, max_num_fields=16)))
        except ValueError:
            return refusal(HTTPStatus.BAD_REQUEST), True
        return await self._answer(request), method == "GET"

    async def _send_events(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, events: AsyncGenerator[bytes, None]
    ) -> None:
        async with aclosing(events) as each:
            async for event in each:
                if reader.at_eof():
                    return
                await self._write(writer, event)

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await asyncio.wait_for(writer.drain(), WRITE_S)


def _head(response: Response) -> bytes:
    headers = {**HEADERS, "Content-Type": response.content_type, **response.headers}
    if response.events is None:
        headers["Content-Length"] = str(len(response.body))
    if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = "GET, HEAD"
    lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode("latin-1")

"""The server: what it serves and to which requests, its headers, and events as the board changes."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from paceline.service.address import HostPort
from paceline.web.board import Board, Daemon
from paceline.web.http import MAX_HEAD_BYTES, HttpServer
from paceline.web.pages import FILES, Pages


class Site:
    def __init__(self, board: Board, address: HostPort) -> None:
        self.board, self.address = board, address

    async def send(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            writer.write(request)
            head, _, body = (await asyncio.wait_for(reader.read(), 10)).partition(b"\r\n\r\n")
        finally:
            writer.close()
        line, *fields = head.decode().split("\r\n")
        return int(line.split()[1]), dict(one.split(": ", 1) for one in fields), body

    async def get(self, path: str, host: str = "localhost", method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        return await self.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    board = Board()
    server = HttpServer(Pages(board).answer)
    yield Site(board, await server.open(HostPort("127.0.0.1", 0)))
    server.close()


@pytest.mark.parametrize("path", FILES)
async def test_the_page_is_served_with_a_strict_policy(site: Site, path: str) -> None:
    status, headers, body = await site.get(path)
    assert status == 200 and len(body) == int(headers["Content-Length"]) > 100
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert b"https://" not in body and b"innerHTML" not in body  # nothing from elsewhere, and names stay text


async def test_state_and_history_are_json(site: Site) -> None:
    status, headers, body = await site.get("/api/state")
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert {"links", "jobs", "flows", "daemons"} <= json.loads(body).keys()
    assert json.loads((await site.get("/api/history?level=2"))[2]) == {"links": {}}
    assert (await site.get("/api/history?level=9"))[0] == 400


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9470", 200),
        ("[::1]:9470", 200),
        ("LOCALHOST", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("", 403),
    ],
)
async def test_on_loopback_only_loopback_may_be_asked_for(site: Site, host: str, status: int) -> None:
    assert (await site.get("/api/state", host))[0] == status


async def test_everything_is_only_read(site: Site) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        status, headers, _ = await site.get("/api/state", method=method)
        assert status == 405 and headers["Allow"] == "GET, HEAD"
    status, headers, body = await site.get("/api/state", method="HEAD")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) > 0


@pytest.mark.parametrize("path", ["/../http.py", "/static/page.js", "/api", "//etc/passwd", "/%2e%2e/board.py"])
async def test_nothing_else_is_served(site: Site, path: str) -> None:
    assert (await site.get(path))[0] == 404


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / SPDY\r\n\r\n", b"GET x HTTP/1.1\r\n\r\n"])
async def test_what_is_no_request_is_refused(site: Site, request_: bytes) -> None:
    assert (await site.send(request_))[0] == 400


async def test_a_head_without_end_is_hung_up_on(site: Site) -> None:
    reader, writer = await asyncio.open_connection(*site.address)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 3 * MAX_HEAD_BYTES)
    try:
        assert await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionResetError:
        pass
    finally:
        writer.close()


async def test_events_bring_the_state_and_then_what_is_new(site: Site) -> None:
    host = Daemon("h0", "host", "/run/x")
    timeline = host.timeline("h0->s0", "measured", 1e9, 0.06)
    assert timeline is not None
    timeline.add(7, {"<b>": 5e8})
    host.heard()
    site.board.daemons.append(host)
    reader, writer = await asyncio.open_connection(*site.address)
    try:
        writer.write(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")

        async def event() -> tuple[str, Any]:
            while True:
                text = (await asyncio.wait_for(reader.readuntil(b"\n\n"), 10)).decode()
                if text.startswith("event: "):
                    name, data = text.strip().split("\n")
                    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

        name, state = await event()
        assert name == "state" and state["links"][0]["jobs"] == {"<b>": 500_000_000}
        name, slots = await event()
        assert name == "slots" and slots["links"]["h0 h0->s0"]["buckets"] == [7]
        timeline.add(8, {})
        name, slots = await event()
        assert name == "slots" and slots["links"] == {"h0 h0->s0": {"step_s": 0.06, "buckets": [8], "jobs": {}}}
    finally:
        writer.close()

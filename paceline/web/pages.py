"""What is served: the page and its files, the board as JSON, and the board as it changes.

/                      the page
/api/state             daemons, links, jobs, flows
/api/history?level=L   timelines: 0 a minute by slots, 1 ten minutes by seconds, 2 an hour by five seconds
/api/stream            events: `state` once a second, `slots` a few times a second with what is new of level 0
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from http import HTTPStatus
from importlib.resources import files

from paceline.web.board import Board
from paceline.web.http import Request, Response, as_json, refusal
from paceline.web.timeline import LEVELS

SLOTS_S = 0.2
STATE_EVERY = 5  # of these
MOST_STREAMS = 32
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
FILES = {
    "/": "index.html",
    **{f"/{name}": name for name in ("style.css", "page.js", "chart.js", "tables.js", "icon.svg")},
}


class Pages:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._streams = 0
        room = files("paceline.web") / "static"
        self._files = {path: (room / name).read_bytes() for path, name in FILES.items()}

    async def answer(self, request: Request) -> Response:
        if request.path in self._files:
            kind = FILES[request.path].rpartition(".")[2]
            return Response(self._files[request.path], f"{TYPES[kind]}; charset=utf-8")
        match request.path:
            case "/api/state":
                return as_json(self._board.state())
            case "/api/history":
                level = request.query.get("level", "0")
                if level not in map(str, range(LEVELS)):
                    return refusal(HTTPStatus.BAD_REQUEST, f"expected a level from 0 to {LEVELS - 1}")
                return as_json(self._board.history(int(level)))
            case "/api/stream":
                if self._streams >= MOST_STREAMS:
                    return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
                return Response(b"retry: 1000\n\n", "text/event-stream", events=self._events())
        return refusal(HTTPStatus.NOT_FOUND)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        self._streams += 1
        try:
            since: dict[str, int] = {}
            count = 0
            while True:
                if count % STATE_EVERY == 0:
                    yield _event("state", self._board.state())
                new = self._board.history(0, since)
                since |= {id: row["buckets"][-1] for id, row in new["links"].items()}
                yield _event("slots", new)
                count += 1
                await asyncio.sleep(SLOTS_S)
        finally:
            self._streams -= 1


def _event(name: str, document: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document, allow_nan=False)}\n\n".encode()

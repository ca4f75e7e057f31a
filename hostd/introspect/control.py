"""The control socket: one JSON object a line in, one out. Only root and the daemon's own user are answered; other users
have a socket of their own (users.py).

A question changes nothing. An order does, and is logged with the process and user that gave it.
"""

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paceline.service.log_rate_limit import LogRateLimit

_log = logging.getLogger(__name__)

Command = Callable[[dict[str, object]], Mapping[str, object]]
MAX_LINE_BYTES = 65_536
_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid
_NO_LOGIN = str(2**32 - 1)


class Peer(NamedTuple):
    """The process that asks, as the kernel knows it."""

    pid: int
    uid: int
    gid: int

    def __str__(self) -> str:
        login = _of_process(self.pid, "loginuid")  # behind sudo
        user = f"uid {self.uid}" + (f" (login uid {login})" if login not in ("", _NO_LOGIN, str(self.uid)) else "")
        return f"{user}, process {self.pid} ({_of_process(self.pid, 'comm') or 'gone'})"


Order = Callable[[dict[str, object], Peer], Mapping[str, object]]


class ControlSocket:
    def __init__(self, path: Path, commands: Mapping[str, Command], orders: Mapping[str, Order] | None = None) -> None:
        self._path, self._commands, self._orders = path, commands, orders or {}
        self._server: asyncio.Server | None = None
        self.refused = 0
        self._log_limit = LogRateLimit()

    async def open(self) -> None:
        self._path.unlink(missing_ok=True)  # a predecessor's: the lock says that none is running
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=MAX_LINE_BYTES)
        self._path.chmod(0o660)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            peer = peer_of(writer.get_extra_info("socket"))
            trusted = peer.uid in (0, os.geteuid())
            while line := await asyncio.wait_for(reader.readline(), 10.0):
                answer = self._answer(line, peer) if trusted else self._refuse(peer.uid)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # a line without end, or a client that went away
        finally:
            writer.close()

    def _refuse(self, uid: int) -> Mapping[str, object]:
        self.refused += 1
        self._log_limit.log(_log, logging.WARNING, uid, "refused a control request of user %d", uid)
        return {"error": "only root and the daemon's own user may ask"}

    def _answer(self, line: bytes, peer: Peer) -> Mapping[str, object]:
        try:
            request = json.loads(line)
            name = request.pop("command")
            order, command = self._orders.get(name), self._commands.get(name)
            if order is None and command is None:
                raise KeyError(name)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # the last: too deep for the parser
            return {"error": f"expected a JSON object with a command: {', '.join((*self._commands, *self._orders))}"}
        try:
            if order is not None:
                extra = {"uid": peer.uid, "pid": peer.pid, "arguments": request}
                self._log_limit.log(_log, logging.WARNING, (name, line), "%s ordered by %s", name, peer, extra=extra)
                return order(request, peer)
            assert command is not None
            return command(request)
        except Exception as error:
            _log.exception("a control request failed")
            return {"error": str(error)}


def peer_of(connection: socket.socket) -> Peer:
    return Peer(*_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)))


def _of_process(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace").strip()
    except OSError:
        return ""


def ask(path: Path, command: str, **arguments: Any) -> dict[str, Any]:
    """One request of a client; raises OSError when no daemon answers."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5.0)
        client.connect(str(path))
        with client.makefile("rwb") as lines:
            lines.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
            lines.flush()
            answer = lines.readline()
    try:
        found: dict[str, Any] = json.loads(answer)
    except ValueError:
        raise OSError(f"{path}: no answer") from None
    return found

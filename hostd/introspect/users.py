"""A user's own view, without root: status and explain of the user's jobs, on a socket that every user can connect to.

Law: a user learns of the jobs all of whose processes are the user's, and of no other, not even its name; nothing can be
ordered here. Which user it is, the kernel says (SO_PEERCRED). What users can cost hostd is bounded whatever they do:
ANSWERS_PER_S connections are taken in a second, of all users together, MOST_CONNECTIONS at a time, one line each.
"""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostd.introspect.control import peer_of
from hostd.introspect.explain import explain
from hostd.introspect.host_view import HostView
from hostd.introspect.status import status
from hostd.introspect.why_unpaced import why_unpaced
from hostd.monitor.flow_view import flows_of
from hostd.monitor.job_tracker import JobTracker
from hostd.monitor.users import JobNames

_log = logging.getLogger(__name__)

USERS_SOCKET = "users.sock"  # in the runtime directory
ANSWERS_PER_S = 10
MOST_CONNECTIONS = 4
PATIENCE_S = 1.0
MAX_LINE_BYTES = 4096
Answer = Callable[[dict[str, object], int], Mapping[str, object]]


class UserSocket:
    def __init__(self, path: Path, answer: Answer) -> None:
        self._path, self._answer = path, answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._pause: asyncio.TimerHandle | None = None

    def open(self) -> None:
        self._path.unlink(missing_ok=True)  # a predecessor's: the lock says that none is running
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.setblocking(False)
        self._listener.bind(str(self._path))
        self._path.chmod(0o666)
        self._listener.listen(16)
        self._resume()

    def close(self) -> None:
        if self._listener is not None:
            if self._pause is not None:
                self._pause.cancel()
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._path.unlink(missing_ok=True)
            for task in self._tasks:
                task.cancel()

    def _resume(self) -> None:
        assert self._listener is not None
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """One; the next one not before its time has come."""
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._pause = loop.call_later(1 / ANSWERS_PER_S, self._resume)
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # it has gone
        if len(self._tasks) >= MOST_CONNECTIONS:
            client.close()
            return
        task = loop.create_task(self._serve(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: client.close())

    async def _serve(self, client: socket.socket) -> None:
        client.setblocking(False)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._converse(client)
        except (OSError, TimeoutError):
            pass  # a line without end, or a client that went away or does not read

    async def _converse(self, client: socket.socket) -> None:
        loop, line = asyncio.get_running_loop(), b""
        while not line.endswith(b"\n"):
            data = await loop.sock_recv(client, MAX_LINE_BYTES)
            line += data
            if not data or len(line) > MAX_LINE_BYTES:
                return
        try:
            answer = self._answer(json.loads(line), peer_of(client).uid)
        except (ValueError, TypeError, AttributeError, RecursionError):
            answer = {"error": "expected a JSON object with a command: status, explain"}
        except Exception as error:
            _log.exception("a user's request failed")
            answer = {"error": str(error)}
        await loop.sock_sendall(client, json.dumps(answer).encode() + b"\n")


def own_answer(view: HostView, request: dict[str, Any], uid: int) -> Mapping[str, object]:
    """What this user may know."""
    own = {name: job for name, job in view.jobs.items() if _is_of(job, uid)}
    listed = None if view.listed is None else tuple(one for one in view.listed if JobNames(own, view.users).meant(one))
    released = {job: by for job, by in view.released.items() if job is None or job in own}
    mine = replace(view, jobs=own, listed=listed, released=released, held_back={})
    match request.get("command"):
        case "status":
            return {**status(mine), "troubles": {}, "trouble_times": {}, "invisible": {}, "user": uid}
        case "explain":
            return _explained(mine, str(request.get("flow", "")))
    return {"error": "only root and the daemon's own user may ask that; users may ask: status, explain"}


def _explained(mine: HostView, wanted: str) -> Mapping[str, object]:
    names = mine.names
    if names.meant(wanted):
        return explain(mine, wanted)
    for job in mine.jobs.values():
        for one in flows_of(job):
            if wanted not in (names.shown_flow(one.flow), str(one.flow)):
                continue
            if one.flow in mine.agent.flows:
                return explain(mine, str(one.flow))  # by its full name: another user's may be shown by the same text
            whys = [reason.why for reason in why_unpaced(mine, job)] or ["its job is about to join"]
            return {"error": f"{wanted} is only watched: {'; '.join(whys)}"}
    return {"error": f"no job or flow {wanted[:60]!r} of yours; your jobs: {names.every()}"}


def _is_of(job: JobTracker, uid: int) -> bool:
    """A process that is not looked into counts as another user's."""
    users = {process.view.uid if process.view is not None else None for process in job.processes.values()}
    return users == {uid}

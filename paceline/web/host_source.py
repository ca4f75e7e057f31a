"""A host on the board: what hostd answers on its control socket, a few times a second."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from paceline.web.board import Board, Daemon, Row

EVERY_S = 0.4
ANSWER_S = 2.0
MAX_ANSWER_BYTES = 8 << 20
LEFT_OUT = ("jobs", "invisible", "nic")


class HostSource:
    """`path`: the control socket. `run` never ends by itself: a host that is away is asked again."""

    def __init__(self, board: Board, path: Path) -> None:
        self._path = path
        self._daemon = Daemon(path.parent.name, "host", str(path))
        self._since = -1  # slot
        board.daemons.append(self._daemon)

    async def run(self) -> None:
        while True:
            try:
                await self._converse()
            except PermissionError:
                self._daemon.lost("permission denied: run as root or as hostd's own user")
            except (OSError, EOFError, ValueError, LookupError, TypeError, TimeoutError) as error:
                self._daemon.lost(_why(error))
            await asyncio.sleep(EVERY_S)

    async def _converse(self) -> None:
        connecting = asyncio.open_unix_connection(self._path, limit=MAX_ANSWER_BYTES)
        reader, writer = await asyncio.wait_for(connecting, ANSWER_S)
        try:
            while True:
                writer.write(json.dumps({"command": "watch", "since": self._since}).encode() + b"\n")
                answer = json.loads(await asyncio.wait_for(reader.readline(), ANSWER_S) or b"null")
                if answer is None:
                    raise EOFError
                if "error" in answer:
                    raise ValueError(str(answer["error"]))
                self._show(answer)
                await asyncio.sleep(EVERY_S)
        finally:
            writer.close()

    def _show(self, answer: Mapping[str, Any]) -> None:
        status, daemon = answer["status"], self._daemon
        daemon.name = str(status["host"])
        daemon.facts = {key: value for key, value in status.items() if key not in LEFT_OUT}
        nic = status["nic"]
        timeline = daemon.timeline(nic["link"], "measured", nic["capacity_bps"], status["slot_ms"] / 1e3)
        if status["slot"] < self._since:  # its clock was set back
            self._since = -1
        for slot, rates_bps in answer["slots"]:
            if timeline is not None and slot > self._since:
                timeline.add(slot, rates_bps)
                self._since = slot
        why = answer["why"]
        daemon.jobs = [_job(daemon.name, job, why) for job in status["jobs"]]
        daemon.flows = [flow | {"job": job["name"]} for job in status["jobs"] for flow in job["flows"]]
        daemon.heard()


def _job(host: str, job: Mapping[str, Any], why: Mapping[str, Mapping[str, Any]]) -> Row:
    flows = job["flows"]
    found = [why[flow["flow"]] for flow in flows if flow["flow"] in why]
    return {
        "name": job["name"],
        "host": host,
        "phase": _phase(job["phase"], found),
        "iteration": job["iteration"],
        "iteration_ms": job["iteration_ms"],
        "slowdown": job["slowdown"] if job["slowdown"] is not None else job.get("estimated_slowdown"),
        "weight": max((one["urgency"] for one in found if one["urgency"] is not None), default=None),
        "rate_bps": sum(flow["achieved_bps"] for flow in flows),
        "paced": job["controlled"],
        "why": list(_why_so(job, found)),
    }


def _phase(phase: str, found: Iterable[Mapping[str, Any]]) -> str:
    """A job that would send and has no guarantee waits for its turn."""
    waits = [one["waits"] for one in found]
    return "waiting" if phase == "sending" and waits and all(waits) else phase


def _why_so(job: Mapping[str, Any], found: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for one in job["not_paced"]:
        yield f"not paced: {one['why']}"
    if job["phase"] == "sending":
        yield from dict.fromkeys(one["because"] for one in found)
        links = dict.fromkeys(one["bottleneck"] for one in found if one["bottleneck"])
        if links:
            yield f"bottleneck: {', '.join(links)}"


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_S:g} s"
    if isinstance(error, EOFError):
        return "it closed the connection"
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return "no hostd listens there"
    return str(error) or type(error).__name__

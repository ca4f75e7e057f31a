"""Mutants of what clients write to hostd's control socket: each line is answered with one JSON object."""

import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from bench.fuzz.mutate import mutant
from hostd.enforce.enforcer import Enforcer
from hostd.enforce.settings import EnforcementSettings
from hostd.introspect.control import MAX_LINE_BYTES, ControlSocket, Peer
from hostd.introspect.durations import Durations
from hostd.introspect.explain import explain
from hostd.introspect.host_view import HostView, SwitchView
from hostd.introspect.status import status
from hostd.monitor.throughput import Throughput
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import FlowReady, JobJoined
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star_of
from paceline.flowcore.policy import POLICIES

SLOT_NS = 60_000_000
PEER = Peer(1, 0, 0)
FLOW = FlowId("a job", "h0", "h1", Role.RING)
GOOD = (
    b'{"command": "status"}',
    b'{"command": "explain", "flow": "a job/ring/h0>h1"}',
    b'{"command": "explain", "flow": "a job", "more": [1, 2.5, {"x": null}]}',
    b'{"command": "release"}',
    b'{"command": ["status"], "flow": 7}',
    b"[" * 40_000,
    b'{"a":' * 12_000,
)
WORDS = ("command", "flow", "status", "explain", "release", "a job/ring/h0>h1", "", "\x00", "é", "x" * 3000)
BY_SOCKET = 0.01  # of all: a system call costs more than an answer


class ControlTarget:
    name: ClassVar[str] = "control"

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._path = Path(self._directory.name) / "control.sock"
        topology = star_of(("h0", "h1"), 1.0)
        agent = HostAgent("h0", topology, SlotClock(SLOT_NS, 10), POLICIES["paceline"](), None)
        agent.handle(JobJoined(FLOW.job, (FlowSpec(FLOW, 8e6, (), 0.0),)), 0)
        agent.handle(FlowReady(FLOW, 0), SLOT_NS)
        self._enforcer = Enforcer(EnforcementSettings(False, Path(self._directory.name) / "lease.json", 1e9), SLOT_NS)
        self._view = HostView(
            name="h0",
            mode="advise",
            policy="paceline",
            now_ns=2 * SLOT_NS,
            topology=topology,
            agent=agent,
            enforcer=self._enforcer,
            switch=SwitchView("sw", "127.0.0.1:7470"),
            jobs={},
            invisible={},
            throughput=Throughput(),
            decisions=Durations(),
            missed_slots=0,
            control_refused=0,
        )
        commands = {"status": self._status, "explain": self._explain, "release": self._release}
        self._failed: list[Exception] = []
        self._socket = ControlSocket(self._path, commands)
        self._open = False

    async def feed(self, draws: random.Random) -> Counter[str]:
        line = mutant(draws, GOOD) if draws.random() < 0.5 else _request(draws)
        answer = await self._ask(line) if draws.random() < BY_SOCKET else self._socket._answer(line, PEER)
        json.dumps(answer)
        if self._failed:
            raise self._failed.pop()
        return Counter({"refused" if "error" in answer else "taken": 1})

    async def _ask(self, line: bytes) -> Mapping[str, object]:
        """By the socket. Of several lines the first answer; none where the line has no end that is near enough."""
        if not self._open:
            await self._socket.open()
            self._open = True
        reader, writer = await asyncio.open_unix_connection(self._path, limit=2**24)
        try:
            writer.write(line + b"\n")
            writer.write_eof()
            answer = await asyncio.wait_for(reader.readline(), 5.0)
        finally:
            writer.close()
        if not answer and len(line.split(b"\n")[0]) < MAX_LINE_BYTES:
            raise AssertionError("no answer")
        found: dict[str, object] = json.loads(answer) if answer else {"error": "too long"}
        return found

    # A command that fails is answered with an error; here it counts as a failure.

    def _status(self, _arguments: dict[str, object]) -> Mapping[str, object]:
        return self._noting(lambda: status(self._view))

    def _explain(self, arguments: dict[str, object]) -> Mapping[str, object]:
        return self._noting(lambda: explain(self._view, str(arguments.get("flow", ""))))

    def _release(self, _arguments: dict[str, object]) -> Mapping[str, object]:
        return {"released": True}

    def _noting(self, answer: Callable[[], Mapping[str, object]]) -> Mapping[str, object]:
        try:
            return answer()
        except Exception as error:
            self._failed.append(error)
            raise

    async def close(self) -> None:
        await self._socket.close()
        self._enforcer.close()
        self._directory.cleanup()


def _request(draws: random.Random) -> bytes:
    """JSON in good form, with a command or something else."""
    request = {draws.choice(WORDS): _value(draws, 3) for _ in range(draws.randrange(4))}
    if draws.random() < 0.7:
        request["command"] = draws.choice(("status", "explain", "explain", "release"))
    return json.dumps(request).encode()


def _value(draws: random.Random, depth: int) -> object:
    match draws.randrange(8 if depth else 6):
        case 0:
            return None
        case 1:
            return draws.choice((0, -1, 2**70, 1e308, 0.5, True))
        case 6:
            return [_value(draws, depth - 1) for _ in range(draws.randrange(3))]
        case 7:
            return {draws.choice(WORDS): _value(draws, depth - 1)}
        case _:
            return draws.choice(WORDS)

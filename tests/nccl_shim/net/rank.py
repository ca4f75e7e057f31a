"""One side of a connection, in a process of its own: python -m tests.nccl_shim.net.rank '{"role": "send", …}'.

The side that receives prints its handle first, the one that sends reads it; both print one JSON object at their end.
A plan has messages [size, tag], posted in this order, at most `outstanding` at a time; the receiver may post them by
`receive_order`. Bytes of message i are those of seed i.
"""

import ctypes
import json
import random
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from tests.nccl_shim.net.nccl import HANDLE_BYTES, Net, NetError

PATTERN_BYTES = 1 << 16
GIVE_UP_S = 30
NAP_S = 50e-6  # NCCL spins; with fewer cores than processes the scheduler would make spinners wait


def content(number: int, size: int) -> bytes:
    pattern = random.Random(number).randbytes(PATTERN_BYTES)
    return (pattern * (size // PATTERN_BYTES + 1))[:size]


class Rank:
    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.net = Net(Path(plan["library"]), plan.get("version", 12))
        self.messages: list[tuple[int, int]] = [tuple(message) for message in plan["messages"]]
        self.outstanding = plan.get("outstanding", 8)
        self.times_s: list[float] = []
        self.refused = 0

    def run(self) -> dict[str, Any]:
        comm = self.connected() if self.plan["role"] == "send" else self.accepted()
        try:
            wrong = self.send(comm) if self.plan["role"] == "send" else self.receive(comm)
        except NetError as error:
            return {"error": str(error), "code": error.code, "done": len(self.times_s)}
        self.net.close("Send" if self.plan["role"] == "send" else "Recv", comm)
        self.net.finalize()
        return {"wrong": wrong, "times_s": self.times_s, "refused": self.refused, "name": self.net.name}

    def connected(self) -> ctypes.c_void_p:
        handle = ctypes.create_string_buffer(bytes.fromhex(sys.stdin.readline()), HANDLE_BYTES)
        return self._until(lambda: self.net.connect(handle))

    def accepted(self) -> ctypes.c_void_p:
        handle, listening = self.net.listen()
        print(handle.hex(), flush=True)
        comm = self._until(lambda: self.net.accept(listening))
        self.net.close("Listen", listening)
        return comm

    def send(self, comm: ctypes.c_void_p) -> list[int]:
        made = self.plan.get("same_bytes")  # for speed: one buffer for all
        buffers: dict[int, Any] = {}
        waiting: deque[tuple[int, ctypes.c_void_p]] = deque()
        for number, (size, tag) in enumerate(self.messages):
            if number == self.plan.get("close_after"):
                return []
            data = buffers.setdefault(0 if made else number, None) or ctypes.create_string_buffer(
                content(0 if made else number, size), max(size, 1)
            )
            buffers[0 if made else number] = data
            memory = self.net.register(comm, data, size)
            while True:
                request = self.net.isend(comm, data, size, tag, memory)
                if request:
                    break
                self.refused += 1
                self._finish(waiting, wait=False)
                time.sleep(NAP_S)
            waiting.append((number, request))
            self._finish(waiting, wait=len(waiting) >= self.outstanding)
        while waiting:
            self._finish(waiting, wait=True)
        return []

    def receive(self, comm: ctypes.c_void_p) -> list[int]:
        order = self.plan.get("receive_order", range(len(self.messages)))
        expected = dict(enumerate(self.messages))
        buffers, wrong = {}, []
        waiting: deque[tuple[int, ctypes.c_void_p]] = deque()
        for number in order:
            size, tag = expected[number]
            room = max(size, self.plan.get("room", 0))
            buffers[number] = ctypes.create_string_buffer(max(room, 1))
            while not (request := self.net.irecv(comm, buffers[number], room, tag)):
                self._finish(waiting, wait=True)
            waiting.append((number, request))
            if len(waiting) >= self.outstanding:
                wrong += self._checked(self._finish(waiting, wait=True), buffers)
        while waiting:
            wrong += self._checked(self._finish(waiting, wait=True), buffers)
        return wrong

    def _checked(self, done: list[tuple[int, int]], buffers: dict[int, Any]) -> list[int]:
        wrong = []
        for number, got in done:
            size, data = self.messages[number][0], buffers.pop(number)
            seed = 0 if self.plan.get("same_bytes") else number
            if got != size or (not self.plan.get("unchecked") and data.raw[:size] != content(seed, size)):
                wrong.append(number)
        return wrong

    def _finish(self, waiting: "deque[tuple[int, ctypes.c_void_p]]", wait: bool) -> list[tuple[int, int]]:
        """Tests all that wait, as NCCL's proxy does; with `wait`, until one is done."""
        done: list[tuple[int, int]] = []
        until_s = time.monotonic() + GIVE_UP_S
        while waiting:
            for number, request in list(waiting):
                if (got := self.net.test(request)) is not None:
                    waiting.remove((number, request))
                    done.append((number, got))
                    self.times_s.append(time.monotonic())
            if done or not wait:
                break
            time.sleep(NAP_S)
            if time.monotonic() > until_s:
                raise NetError("nothing moves", -1)
        return done

    def _until(self, attempt: Any) -> ctypes.c_void_p:
        until_s = time.monotonic() + GIVE_UP_S
        while not (comm := attempt()):
            if time.monotonic() > until_s:
                raise NetError("no connection", -1)
        return comm


if __name__ == "__main__":
    print(json.dumps(Rank(json.loads(sys.argv[1])).run()), flush=True)

"""The processes of a run: started together, let go together, listened to, and gone at the end, whatever happens.

The lines they speak are those of workload/stage.py.
"""

import os
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from bench.jobs.fork_server import Nursery
from bench.jobs.launch import Part
from bench.testbed.network import Testbed
from bench.workload.stage import DONE, GO, READY
from paceline.failure import Failure

READY_WITHIN_S = 180.0
_POLL_S = 0.2
_LEAD_S = 0.05  # from the word to the start, so that everyone has heard it


class RunFailed(Failure):
    """A process of the run failed; str() says which and how in one line."""


class Member:
    """One process, and the numbers it has printed."""

    def __init__(self, part: Part, nursery: Nursery, testbed: Testbed, log: Path) -> None:
        self.part, self._log = part, log
        self.ready = self.done = False
        self.numbers: list[int] = []
        self._partial = b""
        theirs_in, self._to = os.pipe()
        self.output, theirs_out = os.pipe()
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        files = (theirs_in, theirs_out, errors)
        try:
            self._child = nursery.bear(testbed.nodes[part.host], part.module, part.arguments, part.env, files)
        finally:
            for file in files:
                os.close(file)

    @property
    def pid(self) -> int:
        return self._child.pid

    def listen(self) -> bool:
        """Takes in what it has printed; False once it has left."""
        content = os.read(self.output, 65536)
        *lines, self._partial = (self._partial + content).split(b"\n")
        for line in lines:
            if line == READY.encode():
                self.ready = True
            elif line == DONE.encode():
                self.done = True
            elif line.isdigit():  # libraries may print, too
                self.numbers.append(int(line))
        if not content and not self.done:
            said = self._log.read_text(errors="replace").strip().splitlines()
            raise RunFailed(f"{self.part.name} failed: {said[-1] if said else 'it said nothing'}")
        return bool(content)

    def go(self, start_ns: int) -> None:
        with suppress(BrokenPipeError):  # it has left; what it said last is still to be read
            os.write(self._to, f"{GO} {start_ns}\n".encode())

    def end(self) -> None:
        self._child.end()
        os.close(self._to)
        os.close(self.output)


class Crew:
    """Use as a context manager: nobody outlives the block."""

    def __init__(self, nursery: Nursery, testbed: Testbed, parts: Sequence[Part], directory: Path) -> None:
        self._nursery, self._testbed, self._parts, self._directory = nursery, testbed, parts, directory
        self._selector = selectors.DefaultSelector()
        self.members: list[Member] = []

    def __enter__(self) -> "Crew":
        try:
            for number, part in enumerate(self._parts):
                member = Member(part, self._nursery, self._testbed, self._directory / f"{number}.log")
                self.members.append(member)
                self._selector.register(member.output, selectors.EVENT_READ, member)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure: Any) -> None:
        self._selector.close()
        for member in self.members:
            member.end()

    def await_ready(self) -> None:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not all(member.ready for member in self.members):
            self._listen()
            if time.monotonic() > deadline_s:
                late = next(member.part.name for member in self.members if not member.ready)
                raise RunFailed(f"{late} was not ready within {READY_WITHIN_S:g} s")

    def go(self) -> int:
        """Lets everyone begin, each job at its own time; returns the beginning on the monotonic clock."""
        begin_ns = time.monotonic_ns() + round(_LEAD_S * 1e9)
        for member in self.members:
            member.go(begin_ns + round(member.part.start_s * 1e9))
        return begin_ns

    def follow(self, finished: Callable[[], bool], end_ns: int | None, patience_s: float = inf) -> None:
        """Listens until the work is done or the time is over; raises RunFailed where no iteration ends for so long."""
        ended, since_s = 0, time.monotonic()
        while not finished() and (end_ns is None or time.monotonic_ns() < end_ns):
            self._listen(None if end_ns is None else (end_ns - time.monotonic_ns()) / 1e9)
            so_far = sum(len(member.numbers) for member in self.members if member.part.job is not None)
            if so_far != ended:
                ended, since_s = so_far, time.monotonic()
            elif time.monotonic() - since_s > patience_s:
                raise RunFailed(f"no job has ended an iteration for {patience_s:.0f} s")

    def _listen(self, at_most_s: float | None = None) -> None:
        timeout_s = _POLL_S if at_most_s is None else max(0.0, min(_POLL_S, at_most_s))
        for key, _ in self._selector.select(timeout_s):
            if not key.data.listen():
                self._selector.unregister(key.fileobj)

"""The processes of a run: started together, let go together, listened to, and gone at the end, whatever happens.

The lines they print and read are those of workload/runner_protocol.py.
"""

import os
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import ProcessSpec
from bench.testbed.network import Testbed
from bench.workload.runner_protocol import DONE, GO, READY
from paceline.failure import Failure

READY_WITHIN_S = 180.0
_POLL_S = 0.2
_LEAD_S = 0.05  # from the word to the start, so that every process has read it


def soon_ns() -> int:
    """When processes can begin that are told so now."""
    return time.monotonic_ns() + round(_LEAD_S * 1e9)


class RunFailed(Failure):
    """A process of the run failed; str() says which and how in one line."""


class RunProcess:
    """One process, and the numbers it has printed."""

    def __init__(self, spec: ProcessSpec, fork_server: ForkServer, testbed: Testbed, log: Path) -> None:
        self.spec, self._log = spec, log
        self.ready = self.done = False
        self.numbers: list[int] = []
        self._partial_line = b""
        child_stdin, stdin = os.pipe()
        self._stdin: int | None = stdin
        self.output, child_stdout = os.pipe()
        child_stderr = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        files = (child_stdin, child_stdout, child_stderr)
        try:
            self._process = fork_server.fork(testbed.nodes[spec.host], spec.module, spec.arguments, spec.env, files)
        finally:
            for file in files:
                os.close(file)

    @property
    def pid(self) -> int:
        return self._process.pid

    def listen(self) -> bool:
        """Takes in what the process has printed; False once it has ended."""
        content = os.read(self.output, 65536)
        *lines, self._partial_line = (self._partial_line + content).split(b"\n")
        for line in lines:
            if line == READY.encode():
                self.ready = True
            elif line == DONE.encode():
                self.done = True
            elif line.isdigit():  # libraries may print, too
                self.numbers.append(int(line))
        if not content and not self.done:
            log = self._log.read_text(errors="replace").strip().splitlines()
            raise RunFailed(f"{self.spec.name} failed: {log[-1] if log else 'it said nothing'}")
        return bool(content)

    def go(self, start_ns: int) -> None:
        assert self._stdin is not None
        with suppress(BrokenPipeError):  # it has ended; its last lines are still to be read
            os.write(self._stdin, f"{GO} {start_ns}\n".encode())

    def let_end(self) -> None:
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    def kill(self) -> None:
        self._process.kill()
        self.let_end()
        os.close(self.output)


class ProcessGroup:
    """Use as a context manager: no process outlives the block."""

    def __init__(
        self, fork_server: ForkServer, testbed: Testbed, specs: Sequence[ProcessSpec], directory: Path
    ) -> None:
        self._fork_server, self._testbed, self._specs, self._directory = fork_server, testbed, specs, directory
        self._selector = selectors.DefaultSelector()
        self.processes: list[RunProcess] = []

    def __enter__(self) -> "ProcessGroup":
        try:
            self.start(self._specs)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, specs: Sequence[ProcessSpec]) -> list[RunProcess]:
        """Processes that join the group, also while others run."""
        joined = []
        for spec in specs:
            log = self._directory / f"{len(self.processes)}.log"
            process = RunProcess(spec, self._fork_server, self._testbed, log)
            self.processes.append(process)
            self._selector.register(process.output, selectors.EVENT_READ, process)
            joined.append(process)
        return joined

    def __exit__(self, *failure: Any) -> None:
        self._selector.close()
        for process in self.processes:
            process.kill()

    def await_ready(self) -> None:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not all(process.ready for process in self.processes):
            self._listen()
            if time.monotonic() > deadline_s:
                late = next(process.spec.name for process in self.processes if not process.ready)
                raise RunFailed(f"{late} was not ready within {READY_WITHIN_S:g} s")

    def go(self) -> int:
        """Lets every job begin, each at its own time; returns the run's beginning on the monotonic clock."""
        begin_ns = soon_ns()
        for process in self.processes:
            process.go(begin_ns + round(process.spec.start_s * 1e9))
        return begin_ns

    def listen_until(self, finished: Callable[[], bool], end_ns: int | None, progress_timeout_s: float = inf) -> None:
        """Until the work is done or the time is over; raises RunFailed where no iteration ends for so long."""
        ended, since_s = 0, time.monotonic()
        while not finished() and (end_ns is None or time.monotonic_ns() < end_ns):
            self._listen(None if end_ns is None else (end_ns - time.monotonic_ns()) / 1e9)
            so_far = sum(len(process.numbers) for process in self.processes if process.spec.job is not None)
            if so_far != ended:
                ended, since_s = so_far, time.monotonic()
            elif time.monotonic() - since_s > progress_timeout_s:
                raise RunFailed(f"no job has ended an iteration for {progress_timeout_s:.0f} s")

    def _listen(self, at_most_s: float | None = None) -> None:
        timeout_s = _POLL_S if at_most_s is None else max(0.0, min(_POLL_S, at_most_s))
        for key, _ in self._selector.select(timeout_s):
            process: RunProcess = key.data
            if not process.listen():
                self._selector.unregister(key.fileobj)
            if process.done:
                self._let_end(process.spec.job)

    def _let_end(self, job: str | None) -> None:
        """Its processes, if all are done."""
        processes = [process for process in self.processes if process.spec.job == job]
        if all(process.done for process in processes):
            for process in processes:
                process.let_end()

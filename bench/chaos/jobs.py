"""The jobs of a chaos run: each a group of processes that can be killed and started again under its name.

A job that ends without being told to has seen an error; it is noted, and the job starts again. One that fails before
it has begun to train, because the network is away just then, is started again without a note.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench.chaos.timeline import Iteration, JobTimeline
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import ProcessSpec
from bench.jobs.process_group import ProcessGroup, RunFailed
from bench.jobs.run import iteration_ends_ns
from bench.testbed.network import Testbed

START_AGAIN_S = 1.0
_LISTEN_NS = 4_000_000
_SPARE_PORTS = 7  # for rendezvous: the last life's may still be there for a moment (bench/workload/kinds/restart.py)


class ChaosJob:
    """Times are seconds of the monotonic clock since `origin_s`."""

    def __init__(
        self, name: str, specs: Sequence[ProcessSpec], fork_server: ForkServer, testbed: Testbed, directory: Path,
        origin_s: float,
    ) -> None:  # fmt: skip
        self.name, self._specs = name, specs
        self._fork_server, self._testbed, self._origin_s = fork_server, testbed, origin_s
        self._directory = directory / f"job-{name}"
        self._directory.mkdir()
        self.seen = JobTimeline(tuple(dict.fromkeys(spec.host for spec in specs)))
        self._group: ProcessGroup | None = None
        self._begin_s: float | None = None  # since when it trains
        self._start_at_s: float | None = None
        self._counted = 0  # iterations of this life

    @property
    def trains(self) -> bool:
        return self._begin_s is not None

    @property
    def pids(self) -> Mapping[str, int]:
        """Of its processes, by host."""
        return {process.spec.host: process.pid for process in self._group.processes} if self._group else {}

    def start(self, after_s: float = 0.0) -> None:
        """Where it does not run."""
        self._start_at_s = self._now_s() + after_s

    def kill(self) -> None:
        if self._group is not None:
            with suppress(RunFailed):
                self._group.listen_until(lambda: False, time.monotonic_ns() + _LISTEN_NS)  # what it has said so far
            self._take_in(self._now_s())
            self._group.__exit__()
            self._group = None
        if self._begin_s is not None:
            self.seen.running.append((self._begin_s, self._now_s()))
            self._begin_s = None

    def stop(self, host: str, number: int) -> None:
        """SIGSTOP or SIGCONT."""
        if host in self.pids:
            os.kill(self.pids[host], number)

    def poll(self) -> None:
        """What its processes have said; starts it where that is due."""
        if self._group is None:
            if self._start_at_s is not None and self._now_s() >= self._start_at_s:
                self._start()
            return
        try:
            self._group.listen_until(lambda: False, time.monotonic_ns() + _LISTEN_NS)
        except RunFailed as error:
            if self.trains:
                self.seen.errors.append((self._now_s(), str(error)))
            self.kill()
            self.start(START_AGAIN_S)
            return
        if not self.trains and all(process.ready for process in self._group.processes):
            self._begin_s = self._group.go() / 1e9 - self._origin_s
            self.seen.starts += 1
        self._take_in(None)

    def close(self) -> None:
        """An iteration that is not over counts as long as it is."""
        self.kill()

    def _start(self) -> None:
        self._start_at_s, self._counted = None, 0
        shift = self.seen.starts % _SPARE_PORTS
        specs = [
            replace(spec, env={**spec.env, "MASTER_PORT": str(int(spec.env["MASTER_PORT"]) - shift)})
            for spec in self._specs
        ]
        self._group = ProcessGroup(self._fork_server, self._testbed, specs, self._directory)
        self._group.__enter__()

    def _take_in(self, over_s: float | None) -> None:
        """`over_s`: its life ends here."""
        if self._group is None or self._begin_s is None:
            return
        ends_ns = iteration_ends_ns(self.name, self._group.processes, round(self._origin_s * 1e9))
        before_s = ends_ns[self._counted - 1] / 1e9 if self._counted else self._begin_s
        for end_ns in ends_ns[self._counted :]:
            self.seen.iterations.append(Iteration(before_s, end_ns / 1e9))
            before_s = end_ns / 1e9
        self._counted = len(ends_ns)
        if over_s is not None and over_s > before_s:
            self.seen.iterations.append(Iteration(before_s, over_s))

    def _now_s(self) -> float:
        return time.monotonic() - self._origin_s

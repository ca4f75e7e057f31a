"""Mutants of a shim's segment: a process may write any bytes into its own, and cut it at any time.

A job iterates, is followed as hostd follows it, and writes a mutant between two looks; what is believed of that goes
all the way to the job's demand.
"""

import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from bench.fuzz.mutate import same_length
from hostd.monitor.job_tracker import JobTracker
from nccl_shim.page.layout import peer_bytes
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.layout import (
    ADDRESS_BYTES,
    FILE_BYTES,
    FILE_SUFFIX,
    HEADER_BYTES,
    RECORD_BYTES,
    Kind,
    Record,
    Source,
)
from nccl_shim.segment.python_writer import PythonWriter
from nccl_shim.segment.reader import ProcessView, Reader

KINDS = (Kind.ADDRESS, Kind.COLLECTIVE, Kind.SEND, Kind.PROXY, Kind.RECV)
PLACES = HEADER_BYTES + (1 + len(KINDS)) * RECORD_BYTES  # where mutants differ; record 0 collects overflow
BURST_BYTES = 1_500_000
HERE, ADDRESS, NIC_BPS, LOOK_NS = "h0", "10.0.0.2", 1e9, 40_000_000
MEMORY = Path("/dev/shm")
NEW_JOB, USUAL = 0.1, 0.8  # part of the mutants that a new job writes; of iterations, that are of two bursts


class SegmentTarget:
    name: ClassVar[str] = "segments"

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self._reader = Reader(self._directory, estimate_waiting=True)
        self._now_ns = 0
        self._begin(Source.TORCH)

    async def feed(self, draws: random.Random) -> Counter[str]:
        chance = draws.random()
        if chance < NEW_JOB:
            self._end()
            self._begin(Source.NCCL if chance < NEW_JOB / 5 else Source.TORCH)
        elif chance < 0.5:  # hostd has begun anew
            self._reader.close()
        for _ in range(draws.randrange(4)):  # after a few of them its demand is known
            self._iterate(2 if draws.random() < USUAL else draws.randrange(4))
        if draws.random() < 0.5:  # in the middle of a burst
            self._burst()
        good = os.pread(self._file, PLACES, 0)
        os.pwrite(self._file, same_length(draws, good, PLACES), 0)
        if cut := chance > 0.98:
            os.ftruncate(self._file, draws.randrange(FILE_BYTES))
        seen = self._look()
        if cut:
            os.ftruncate(self._file, FILE_BYTES)
        os.pwrite(self._file, good, 0)
        return Counter({"taken" if seen else "refused": 1})

    async def close(self) -> None:
        self._end()
        self._reader.close()
        shutil.rmtree(self._directory)

    def _begin(self, source: Source) -> None:
        self._writer = PythonWriter(Identity("fuzzed", self._directory, 1, 4, 1))
        self._records = {kind: self._writer.find(kind, source, 7, 1, 4, peer) for peer, kind in enumerate(KINDS)}
        [path] = self._directory.glob(f"*{FILE_SUFFIX}")
        self._file = os.open(path, os.O_RDWR)
        os.pwrite(self._file, peer_bytes(ADDRESS)[:ADDRESS_BYTES], HEADER_BYTES + RECORD_BYTES + Record.address.offset)
        self.job = JobTracker("0/fuzzed", HERE, self._now_ns, NIC_BPS)
        self.job.look(self._now_ns, {ADDRESS: "h1"}, HERE)  # it has no process yet: no socket is looked for

    def _end(self) -> None:
        os.close(self._file)
        self._writer.finish()
        for path in self._directory.glob(f"*{FILE_SUFFIX}"):
            path.unlink()

    def _iterate(self, bursts: int) -> None:
        for _ in range(bursts):
            self._burst()
            self._send()
            self._look()
            self._look()
        self._writer.end_iteration()
        self._look()
        self._look()

    def _burst(self) -> None:
        """Half of it."""
        self._writer.enqueue(self._records[Kind.COLLECTIVE], BURST_BYTES, BURST_BYTES)
        self._look()
        self._send()
        self._look()

    def _send(self) -> None:
        self._writer.enqueue(self._records[Kind.ADDRESS], BURST_BYTES // 2, 0)
        self._writer.transmit(self._records[Kind.PROXY], BURST_BYTES // 2, BURST_BYTES // 2)

    def _look(self) -> list[ProcessView]:
        seen = self._reader.poll()
        changed = self._reader.poll_changed({view.host_pid for view in seen})
        self._follow([*seen, *changed])
        return seen

    def _follow(self, views: Iterable[ProcessView]) -> None:
        self._now_ns += LOOK_NS
        self.job.consists_of({view.host_pid: view for view in views if view.host_pid is not None})
        self.job.read(self._now_ns)
        self.job.schedule(self._now_ns, NIC_BPS)
        self.job.timing.times()
        if self.job.facts is not None:
            self.job.demand.progress(self.job.facts)
            self.job.demand.introduce(self.job.facts)

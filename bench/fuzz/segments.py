"""Mutants of a shim's segment file: a process may write any bytes into its own, and cut it at any time."""

import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import ClassVar

from bench.fuzz.mutate import same_length
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.layout import FILE_BYTES, FILE_SUFFIX, HEADER_BYTES, RECORD_BYTES, Kind, Source
from nccl_shim.segment.python_writer import PythonWriter
from nccl_shim.segment.reader import Reader

RECORDS = 4
PLACES = HEADER_BYTES + RECORDS * RECORD_BYTES  # where mutants differ from a good file
MEMORY = Path("/dev/shm")


class SegmentTarget:
    name: ClassVar[str] = "segments"

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        good = _good_segment(self._directory)
        self._path = self._directory / f"mutant{FILE_SUFFIX}"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(self._file, good, 0)
        self._good = good[:PLACES]
        self._reader = Reader(self._directory, estimate_waiting=True)

    async def feed(self, draws: random.Random) -> Counter[str]:
        chance = draws.random()
        os.pwrite(self._file, same_length(draws, self._good, PLACES), 0)
        if chance < 0.5:  # a file that was not known before; else the known one changes below the reader
            self._reader.close()
        if cut := chance > 0.98:
            os.ftruncate(self._file, draws.randrange(FILE_BYTES))
        seen = self._reader.poll()
        self._reader.poll_changed({view.host_pid for view in seen})
        if cut:
            os.ftruncate(self._file, FILE_BYTES)
        return Counter({"taken" if seen else "refused": 1})

    async def close(self) -> None:
        self._reader.close()
        os.close(self._file)
        shutil.rmtree(self._directory)


def _good_segment(directory: Path) -> bytes:
    """What a process writes that sends to three others, in its third iteration."""
    writer = PythonWriter(Identity("fuzzed", directory, 1, 4, 1))
    for peer, kind in enumerate((Kind.COLLECTIVE, Kind.SEND, Kind.PROXY, Kind.RECV)):
        record = writer.find(kind, Source.NCCL, 7, 1, 4, peer)
        for _ in range(3):
            writer.enqueue(record, 1_000_000, 1_500_000)
            writer.transmit(record, 1_500_000, 1_500_000)
            writer.end_iteration()
    [path] = directory.glob(f"*{FILE_SUFFIX}")
    data = path.read_bytes()
    writer.finish()
    path.unlink(missing_ok=True)
    return data

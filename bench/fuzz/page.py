"""Mutants of a page, as a hostd of another version, a broken one or one that lies might write it.

Law: both readers, Python's and C's, say the same of each, and nothing beyond their bounds.
"""

import ctypes
import os
import random
import struct
import tempfile
from collections import Counter
from pathlib import Path
from typing import ClassVar

from bench.fuzz.mutate import same_length
from nccl_shim import build
from nccl_shim.page.decision import Answer, decide
from nccl_shim.page.layout import (
    ANY_PEER,
    BANK_HEAD,
    ENTRY,
    HEADER,
    LEAST_RATE,
    MOST_HOLD_NS,
    MOST_RATE,
    Entry,
    State,
    bank_at,
    checksum,
    peer_bytes,
)
from nccl_shim.page.reader import PageReader
from nccl_shim.page.writer import PageWriter

CAPACITY, SLOT_NS = 6, 60_000_000
PEERS = (peer_bytes("10.0.0.2"), peer_bytes("fd00::2"), peer_bytes("10.0.0.9"))
STRANGE = (0.0, -1.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1e300)


class PageTarget:
    name: ClassVar[str] = "page"

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        place = Path(self._directory.name)
        self._c = ctypes.CDLL(str(build.build_net(place / build.NET_LIBRARY_NAME)))
        self._c.plp_open.restype = ctypes.c_void_p
        self._good, self._now_ns = _good_page(place)
        self._path = place / "mutant.page"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        self._reader = PageReader(self._path)
        self._c_reader = ctypes.c_void_p(self._c.plp_open(str(self._path).encode()))

    async def feed(self, draws: random.Random) -> Counter[str]:
        self._now_ns += 200_000_000  # a page that was not believed is opened again
        data = self._mutant(draws)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, data, 0)
        peer = draws.choice(PEERS)
        found = decide(data, peer, self._now_ns)
        self._hold_to_bounds(found)
        if (in_c := self._decide_in_c(data, peer)) != found:
            raise AssertionError(f"Python says {found}, C says {in_c}")
        files = self._reader.look(peer, self._now_ns), self._look_in_c(peer)
        if files[0] != files[1]:
            raise AssertionError(f"of the file Python says {files[0]}, C says {files[1]}")
        for one in files:
            self._hold_to_bounds(one)
        return Counter({f"taken as {found.state.name.lower()}" if found.slot_ns else "refused": 1})

    async def close(self) -> None:
        self._reader.close()
        self._c.plp_close(self._c_reader)
        os.close(self._file)
        self._directory.cleanup()

    def _mutant(self, draws: random.Random) -> bytes:
        data = bytearray(self._good)
        struct.pack_into("<q", data, 24, self._now_ns)
        data = bytearray(same_length(draws, bytes(data), len(data)))
        if draws.random() < 0.5:  # a rate that no sane hostd has
            struct.pack_into("<d", data, HEADER.size + BANK_HEAD.size + ENTRY.size - 8, draws.choice(STRANGE))
        if draws.random() < 0.8:  # as one that writes such values would
            _check_again(data)
        if draws.random() < 0.1:
            del data[draws.randrange(len(data)) :]
        return bytes(data)

    def _hold_to_bounds(self, found: Answer) -> None:
        held = self._now_ns < found.until_ns <= self._now_ns + MOST_HOLD_NS
        paced = LEAST_RATE <= found.rate <= MOST_RATE
        nothing = (found.until_ns, found.rate) == (0, 0.0)
        if not {State.HELD: held, State.ASK: held, State.RATE: paced, State.OPEN: nothing}[found.state]:
            raise AssertionError(f"beyond its bounds: {found}")

    def _decide_in_c(self, data: bytes, peer: bytes) -> Answer:
        told = (ctypes.c_int64 * 4)()
        self._c.plp_decide(data, ctypes.c_size_t(len(data)), peer, ctypes.c_int64(self._now_ns), told)
        return _answer(bytes(told))

    def _look_in_c(self, peer: bytes) -> Answer:
        told = (ctypes.c_int64 * 4)()
        self._c.plp_look(self._c_reader, peer, ctypes.c_int64(self._now_ns), told)
        return _answer(bytes(told))


def _answer(data: bytes) -> Answer:
    state, until_ns, rate, slot_ns = struct.unpack("<i4xqdq", data)
    return Answer(State(state), until_ns, rate, slot_ns)


def _good_page(place: Path) -> tuple[bytes, int]:
    now_ns = 10**12
    with PageWriter(place, 1, 1, SLOT_NS, capacity=CAPACITY) as page:
        page.write([])
        page.write(
            [
                Entry(PEERS[0], State.RATE, 0, 125e6),
                Entry(PEERS[1], State.HELD, 2**62),
                Entry(PEERS[2], State.ASK),
                Entry(ANY_PEER, State.RATE, 0, 1e9),
            ]
        )
        page.beat(now_ns)
        return page.path.read_bytes(), now_ns


def _check_again(data: bytearray) -> None:
    """Sequence and checksum fit what is there, as far as it is a page."""
    [sequence] = struct.unpack_from("<Q", data, 16)
    at = bank_at(sequence, CAPACITY)
    _, count, _ = BANK_HEAD.unpack_from(data, at)
    entries = bytes(data[at + BANK_HEAD.size : at + BANK_HEAD.size + min(count, CAPACITY) * ENTRY.size])
    BANK_HEAD.pack_into(data, at, sequence, count, checksum(sequence, count, entries))

"""Pages in memory, good and bad, and the C reader behind Python's names."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

from nccl_shim.page.decision import Answer
from nccl_shim.page.layout import (
    BANK_HEAD,
    ENTRY,
    HEADER,
    MAGIC,
    VERSION,
    Entry,
    State,
    bank_at,
    checksum,
    page_bytes,
    peer_bytes,
)

NOW_NS = 1_000_000_000_000
SLOT_NS = 60_000_000
PEER = peer_bytes("10.0.0.2")


class CAnswer(ctypes.Structure):
    _fields_ = (
        ("state", ctypes.c_int32),
        ("zero", ctypes.c_int32),
        ("until_ns", ctypes.c_int64),
        ("rate", ctypes.c_double),
        ("slot_ns", ctypes.c_int64),
    )

    def as_answer(self) -> Answer:
        return Answer(State(self.state), self.until_ns, self.rate, self.slot_ns)


class CHold(ctypes.Structure):
    _fields_ = (
        ("began_ns", ctypes.c_int64),
        ("limit_ns", ctypes.c_int64),
        ("state", ctypes.c_int32),
        ("spent", ctypes.c_int32),
    )


class CPage:
    """nccl_shim/csrc/page, through ctypes."""

    def __init__(self, library: Path) -> None:
        self._c = ctypes.CDLL(str(library))
        self._c.plp_open.restype = ctypes.c_void_p
        self._c.plp_open.argtypes = (ctypes.c_char_p,)
        self._c.plp_close.argtypes = (ctypes.c_void_p,)
        told = (ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p)  # peer, now, answer
        self._c.plp_decide.argtypes = (ctypes.c_char_p, ctypes.c_size_t, *told)
        self._c.plp_look.argtypes = (ctypes.c_void_p, *told)
        self._c.plp_hold_remaining.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self._c.plp_hold_remaining.restype = ctypes.c_int64

    def decide(self, data: bytes, peer: bytes, now_ns: int) -> Answer:
        found = CAnswer()
        self._c.plp_decide(data, len(data), peer, now_ns, ctypes.byref(found))
        return found.as_answer()

    def open(self, path: Path | None) -> int:
        """None: this process's own."""
        reader: int = self._c.plp_open(b"" if path is None else str(path).encode())
        return reader

    def look(self, reader: int, peer: bytes, now_ns: int) -> Answer:
        found = CAnswer()
        self._c.plp_look(reader, peer, now_ns, ctypes.byref(found))
        return found.as_answer()

    def close(self, reader: int) -> None:
        self._c.plp_close(reader)

    def remaining_ns(self, hold: CHold, answer: Answer, now_ns: int) -> int:
        told = CAnswer(answer.state, 0, answer.until_ns, answer.rate, answer.slot_ns)
        left: int = self._c.plp_hold_remaining(ctypes.byref(hold), ctypes.byref(told), now_ns)
        return left


def page(
    entries: Sequence[Entry] = (Entry(PEER, State.RATE, 0, 125e6),),
    capacity: int = 4,
    sequence: int = 7,
    heartbeat_ns: int = NOW_NS,
    slot_ns: int = SLOT_NS,
    version: int = VERSION,
    size: int | None = None,
) -> bytes:
    """A page in memory; all of it may be wrong, its checksum is right."""
    size = page_bytes(capacity) if size is None else size
    data = bytearray(page_bytes(capacity))
    HEADER.pack_into(data, 0, MAGIC, version, size, sequence, heartbeat_ns, slot_ns, capacity, 1, 1)
    packed = b"".join(ENTRY.pack(one.peer, one.state, 0, one.held_until_ns, one.rate) for one in entries)
    at = bank_at(sequence, capacity)
    BANK_HEAD.pack_into(data, at, sequence, len(entries), checksum(sequence, len(entries), packed))
    data[at + BANK_HEAD.size : at + BANK_HEAD.size + len(packed)] = packed
    return bytes(data)

"""The page's layout, version 1: one file per process, written by hostd alone, read by the process.

    header | bank 0 | bank 1          bank = head | `capacity` entries; little-endian, no holes

Law: the bank in use is `sequence & 1`. A writer fills the other one, which carries the next sequence and a checksum of
itself, and then stores the sequence: a writer that is stopped or killed anywhere leaves the last state whole. The
heartbeat is a word of its own, stored every slot. nccl_shim/csrc/page/page.h is the same in C; a test compares both.
"""

from __future__ import annotations

import binascii
import ipaddress
import struct
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from nccl_shim.segment.layout import DEFAULT_SOCKET

MAGIC = b"PACEPAGE"
VERSION = 1
HEADER = struct.Struct("<8sIIQqqIiQ8x")  # magic, version, size, sequence, heartbeat, slot, capacity, pid, start ticks
BANK_HEAD = struct.Struct("<QII")  # sequence, count, checksum of the two and of `count` entries
ENTRY = struct.Struct("<16sIIqd")  # address, state, zero, held until (CLOCK_MONOTONIC, ns), rate (bytes per second)
SEQUENCE_AT, HEARTBEAT_AT = 16, 24
MOST_ENTRIES = 4096
DEFAULT_ENTRIES = 256

STALE_SLOTS = 5  # a heartbeat older than these: as if there were no page
HOLD_SLOTS = 2  # no hold lasts these slots longer than was announced when it began, nor an answer longer than these,
MOST_HOLD_NS = 2_000_000_000  # nor longer than this, far below the watchdogs of NCCL and torch
LEAST_SLOT_NS, MOST_SLOT_NS = 1_000_000, 1_000_000_000
LEAST_RATE, MOST_RATE = 125_000.0, 1e12  # bytes per second: the floor of 1 Mbit/s; more than the second is no limit
ANY_PEER = bytes(16)  # the entry for peers that have none


class State(IntEnum):
    OPEN = 0
    HELD = 1
    RATE = 2
    ASK = 3  # a burst that is launched waits for what hostd makes of it


class Entry(NamedTuple):
    """What one peer of the process gets. `held_until_ns` counts where it is held, `rate` where it is paced."""

    peer: bytes
    state: int = State.OPEN
    held_until_ns: int = 0
    rate: float = 0.0


def bank_bytes(capacity: int) -> int:
    return BANK_HEAD.size + capacity * ENTRY.size


def page_bytes(capacity: int) -> int:
    return HEADER.size + 2 * bank_bytes(capacity)


def bank_at(sequence: int, capacity: int) -> int:
    return HEADER.size + (sequence & 1) * bank_bytes(capacity)


def checksum(sequence: int, count: int, entries: bytes) -> int:
    return binascii.crc32(entries, binascii.crc32(struct.pack("<QI", sequence, count)))


def peer_bytes(address: str) -> bytes:
    """An address as entries have it: 16 bytes, IPv4 within IPv6."""
    parsed = ipaddress.ip_address(address)
    return parsed.packed if parsed.version == 6 else b"\0" * 10 + b"\xff\xff" + parsed.packed


def page_name(pid: int, pid_start_ticks: int) -> str:
    """Of the file: `pid` as the process knows itself; start times are the same in all pid namespaces."""
    return f"{pid}-{pid_start_ticks}.page"


def page_directory(env: Mapping[str, str]) -> Path:
    """Where pages are: beside hostd's socket, whose directory containers mount."""
    if named := env.get("PACELINE_PAGE_DIR"):
        return Path(named)
    socket = env.get("PACELINE_SOCKET", "")
    return (Path(socket) if "/" in socket else DEFAULT_SOCKET).parent / "pages"

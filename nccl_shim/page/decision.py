"""What a page says of one peer. Law: whatever the bytes, the answer is open, held or a rate within bounds.

    open     wrong magic, version or size; a heartbeat of more than 5 slots ago, or of the future; a bank whose sequence
             or checksum does not fit; a peer without an entry; a state, moment or rate that makes no sense
    held     until a moment of the next 2 s
    ask      until hostd has answered, 2 slots at most
    rate     from 1 Mbit/s to 1 TB/s

nccl_shim/csrc/page/decision.c is the same in C; a test compares both on the same bytes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nccl_shim.page.layout import (
    ANY_PEER,
    BANK_HEAD,
    ENTRY,
    HEADER,
    HOLD_SLOTS,
    LEAST_RATE,
    LEAST_SLOT_NS,
    MAGIC,
    MOST_ENTRIES,
    MOST_HOLD_NS,
    MOST_RATE,
    MOST_SLOT_NS,
    STALE_SLOTS,
    VERSION,
    Entry,
    State,
    bank_at,
    bank_bytes,
    checksum,
    page_bytes,
)


class Answer(NamedTuple):
    """`until_ns` where it is held or asks, `rate` (bytes per second) where it is paced; no page: `slot_ns` is 0."""

    state: State
    until_ns: int = 0
    rate: float = 0.0
    slot_ns: int = 0


OPEN = Answer(State.OPEN)


class Header(NamedTuple):
    sequence: int
    slot_ns: int
    capacity: int


def believed_header(data: bytes, now_ns: int) -> Header | None:
    """The header at the beginning of `data`, if it is one of ours and its hostd lives."""
    if len(data) < HEADER.size:
        return None
    magic, version, size, sequence, heartbeat_ns, slot_ns, capacity, _, _ = HEADER.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION) or not 0 < capacity <= MOST_ENTRIES or size != page_bytes(capacity):
        return None
    if not LEAST_SLOT_NS <= slot_ns <= MOST_SLOT_NS:
        return None
    # Not by the difference, which in C could overflow.
    if heartbeat_ns > now_ns + slot_ns or heartbeat_ns < now_ns - STALE_SLOTS * slot_ns:
        return None
    return Header(sequence, slot_ns, capacity)


def believed_entries(bank: bytes, header: Header) -> dict[bytes, Entry] | None:
    """The entries by peer, the first of each; None where the bank is torn or not the one that the header names."""
    if len(bank) < BANK_HEAD.size:
        return None
    sequence, count, check = BANK_HEAD.unpack_from(bank)
    end = BANK_HEAD.size + count * ENTRY.size
    if sequence != header.sequence or count > header.capacity or end > len(bank):
        return None
    entries = bank[BANK_HEAD.size : end]
    if checksum(sequence, count, entries) != check:
        return None
    found: dict[bytes, Entry] = {}
    for peer, state, _, held_until_ns, rate in ENTRY.iter_unpack(entries):
        found.setdefault(peer, Entry(peer, state, held_until_ns, rate))
    return found


def answer(entries: dict[bytes, Entry], peer: bytes, now_ns: int, slot_ns: int) -> Answer:
    entry = entries.get(peer) or entries.get(ANY_PEER)
    if entry is not None and entry.state == State.HELD and entry.held_until_ns > now_ns:
        return Answer(State.HELD, min(entry.held_until_ns, now_ns + MOST_HOLD_NS), 0.0, slot_ns)
    if entry is not None and entry.state == State.ASK:
        return Answer(State.ASK, now_ns + HOLD_SLOTS * slot_ns, 0.0, slot_ns)
    if entry is not None and entry.state == State.RATE and math.isfinite(entry.rate) and 0 < entry.rate <= MOST_RATE:
        return Answer(State.RATE, 0, max(entry.rate, LEAST_RATE), slot_ns)
    return Answer(State.OPEN, slot_ns=slot_ns)


def decide(data: bytes, peer: bytes, now_ns: int) -> Answer:
    """What the whole page `data` says of `peer`."""
    header = believed_header(data, now_ns)
    if header is None:
        return OPEN
    at = bank_at(header.sequence, header.capacity)
    entries = believed_entries(data[at : at + bank_bytes(header.capacity)], header)
    return OPEN if entries is None else answer(entries, peer, now_ns, header.slot_ns)

"""Mirror of csrc/paceline_shm.h, layout version 1. Law: same names, same offsets; a test compiles the header
and compares every field.
"""

import ctypes
import ipaddress
import struct
from enum import IntEnum
from pathlib import Path
from typing import Any

MAGIC = int.from_bytes(b"PACESHM1", "little")
VERSION = 1
HEADER_BYTES = 256
RECORD_BYTES = 128
RECORD_COUNT = 1024
FILE_BYTES = HEADER_BYTES + RECORD_COUNT * RECORD_BYTES
JOB_BYTES = 64
ADDRESS_BYTES = 16
FILE_SUFFIX = ".pls"
DEFAULT_DIRECTORY = Path("/dev/shm/paceline")
DEFAULT_SOCKET = Path("/run/paceline/hostd/jobs/hostd.sock")  # where hostd takes counters

FINISHED = 1
FREE, PUBLISHED, CLOSED = 0, 1, 2
WRITER_C, WRITER_PYTHON = 1, 2


class Source(IntEnum):
    NCCL = 1
    TORCH = 2
    PS = 3


class ProcessRole(IntEnum):
    WORKER = 0
    SERVER = 1


class Kind(IntEnum):
    COLLECTIVE = 1
    SEND = 2
    PUSH = 3
    OVERFLOW = 4
    RECV = 5
    PULL = 6
    PROXY = 7
    FOREIGN = 8
    ADDRESS = 9

    @property
    def outbound(self) -> bool:
        """Whether enqueued bytes of this kind leave the process and so count towards an iteration."""
        return self < Kind.RECV


OUTBOUND = frozenset(kind for kind in Kind if kind.outbound)  # asked of a set in a third of the time


class Iteration(ctypes.LittleEndianStructure):
    _fields_ = (
        ("seq", ctypes.c_uint64),
        ("iteration", ctypes.c_uint64),
        ("start_ns", ctypes.c_uint64),
        ("enqueued_at_start", ctypes.c_uint64),
        ("tx_at_start", ctypes.c_uint64),
        ("last_enqueued", ctypes.c_uint64),
        ("last_duration_ns", ctypes.c_uint64),
        ("check", ctypes.c_uint64),
    )


class Header(ctypes.LittleEndianStructure):
    _fields_ = (
        ("magic", ctypes.c_uint64),
        ("version", ctypes.c_uint32),
        ("header_bytes", ctypes.c_uint32),
        ("record_bytes", ctypes.c_uint32),
        ("record_count", ctypes.c_uint32),
        ("records_claimed", ctypes.c_uint32),
        ("role", ctypes.c_uint32),
        ("pid", ctypes.c_int32),
        ("uid", ctypes.c_uint32),
        ("pid_start_ticks", ctypes.c_uint64),
        ("pid_namespace", ctypes.c_uint64),
        ("global_rank", ctypes.c_int32),
        ("world_size", ctypes.c_int32),
        ("local_rank", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("created_ns", ctypes.c_uint64),
        ("heartbeat_ns", ctypes.c_uint64),
        ("weight_milli", ctypes.c_uint32),
        ("writer", ctypes.c_uint32),
        ("dropped_records", ctypes.c_uint64),
        ("held_ns", ctypes.c_uint64),
        ("iterations", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 1),
        ("iteration", Iteration),
        ("job", ctypes.c_char * JOB_BYTES),
    )


class Record(ctypes.LittleEndianStructure):
    _fields_ = (
        ("state", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("comm_id", ctypes.c_uint64),
        ("rank", ctypes.c_int32),
        ("nranks", ctypes.c_int32),
        ("peer", ctypes.c_int32),
        ("source", ctypes.c_uint32),
        ("enqueued_bytes", ctypes.c_uint64),
        ("enqueued_ops", ctypes.c_uint64),
        ("expected_tx_bytes", ctypes.c_uint64),
        ("enqueued_ns", ctypes.c_uint64),
        ("tx_bytes", ctypes.c_uint64),
        ("rx_bytes", ctypes.c_uint64),
        ("tx_steps", ctypes.c_uint64),
        ("rx_steps", ctypes.c_uint64),
        ("channel_mask", ctypes.c_uint64),
        ("transmit_ns", ctypes.c_uint64),
        ("address", ctypes.c_uint8 * ADDRESS_BYTES),
    )


_CODES = {ctypes.c_uint64: "Q", ctypes.c_uint32: "I", ctypes.c_int32: "i"}


def _codes(structure: type[ctypes.Structure]) -> str:
    return "".join(_code(of) for _, of, *_ in structure._fields_)


def _code(of: Any) -> str:
    if of in _CODES:
        return _CODES[of]
    if issubclass(of, ctypes.Structure):
        return _codes(of)
    return f"{ctypes.sizeof(of)}{'x' if of._type_ is ctypes.c_uint64 else 's'}"  # reserved, or bytes


# The same for reading, without what is reserved: all fields in one call, where ctypes takes one for each.
HEADER = struct.Struct("<" + _codes(Header))
RECORD = struct.Struct("<" + _codes(Record))


def check_word(words: tuple[int, ...]) -> int:
    """The iteration counter's check: tells words of two iterations where the reader has no memory barriers."""
    mixed = MAGIC
    for word in words:
        mixed = ((mixed ^ word) * 0x9E3779B97F4A7C15) & 0xFFFF_FFFF_FFFF_FFFF
        mixed ^= mixed >> 32
    return mixed


def address_text(address: bytes) -> str:
    """Of a record of kind ADDRESS, as people write it."""
    found = ipaddress.IPv6Address(address)
    return str(found.ipv4_mapped or found)


def ring_wire_bytes(operation: str, payload_bytes: int, nranks: int) -> int:
    """What one rank sends on a ring for `payload_bytes`; same rules as csrc/payload.h."""
    if nranks <= 1:
        return 0
    if operation == "AllReduce":
        return payload_bytes * 2 * (nranks - 1) // nranks
    if operation in ("AllGather", "ReduceScatter"):
        return payload_bytes * (nranks - 1)
    return payload_bytes

"""NCCL's calls of the profiler plugin, in this process: what it would report of one communicator of two ranks."""

import ctypes
import os
import struct

from nccl_shim.segment.clibrary import library_path

COLL, PROXY_OP, PROXY_STEP, COLL_API = 0x2, 0x8, 0x10, 0x200
SENT = 9
EVENT_BYTES = 112
FLOAT = b"ncclFloat32"


class Communicator:
    def __init__(self, rank: int) -> None:
        self._library = ctypes.CDLL(str(library_path()))
        name, init, start, stop, record, _ = (ctypes.c_void_p * 6).in_dll(self._library, "ncclProfiler_v5")
        assert name
        pointer, i32 = ctypes.c_void_p, ctypes.c_int
        init_type = ctypes.CFUNCTYPE(
            i32, pointer, ctypes.c_uint64, pointer, ctypes.c_char_p, i32, i32, i32, pointer
        )  # fmt: skip
        self._start = ctypes.CFUNCTYPE(i32, pointer, pointer, pointer)(start)
        self._stop = ctypes.CFUNCTYPE(i32, pointer)(stop)
        self._record = ctypes.CFUNCTYPE(i32, pointer, i32, pointer)(record)
        self._context, mask = ctypes.c_void_p(), ctypes.c_int()
        init_type(init)(ctypes.byref(self._context), 1, ctypes.byref(mask), b"comm", 2, 2, rank, None)
        self._function, self._datatype = ctypes.c_char_p(b"AllReduce"), ctypes.c_char_p(FLOAT)
        operation = struct.pack("<i4xiiii", os.getpid(), 1 - rank, 1, 1 << 19, 1)
        self._operation = self._event(PROXY_OP, None, {24: operation})

    def call(self, size_bytes: int) -> None:
        """Of an all-reduce: returns when it may be launched."""
        told = {24: self._function, 32: struct.pack("<Q", size_bytes // 4), 40: self._datatype}
        self._stop(self._event(COLL_API, None, told))

    def launched(self, size_bytes: int) -> None:
        told = {32: self._function, 56: struct.pack("<Q", size_bytes // 4), 72: self._datatype}
        self._stop(self._event(COLL, None, told))

    def sent(self, size_bytes: int) -> None:
        step = self._event(PROXY_STEP, self._operation, {})
        self._record(step, SENT, ctypes.byref(ctypes.c_size_t(size_bytes)))
        self._stop(step)

    def _event(self, kind: int, parent: int | None, told: dict[int, bytes | ctypes.c_char_p]) -> int | None:
        event, handle = ctypes.create_string_buffer(EVENT_BYTES), ctypes.c_void_p()
        struct.pack_into("<QQ", event, 0, kind, parent or 0)
        for at, value in told.items():
            data = value if isinstance(value, bytes) else bytes(value)
            event[at : at + len(data)] = data  # type: ignore[assignment]
        self._start(self._context, ctypes.byref(handle), event)
        return handle.value

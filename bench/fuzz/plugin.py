"""Mutants of the events that NCCL hands to the plugin, in a child process: a crash ends the child, and is counted.

Numbers of a descriptor are anything. Pointers are what NCCL's interface says: none, or texts and handles that exist; a
context of another process with that process's pid.

    python -m bench.fuzz.plugin LIBRARY SEED COUNT
"""

import asyncio
import ctypes
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from nccl_shim import build

BATCH = 10_000
DESCRIPTOR_BYTES = 112
VERSIONS = (4, 5, 6)
TYPES = (*(1 << bit for bit in range(14)), 0, 3, 2**63)  # version 6 has the last three of these bits
COLL, P2P, PROXY_OP, PROXY_STEP, NET_PLUGIN, COLL_API, P2P_API = 2, 4, 8, 16, 128, 512, 1024
TEXTS_AT = {COLL: (32, 72, 88, 96), P2P: (24, 40), COLL_API: (24, 40), P2P_API: (24, 40)}
TEXTS = [b"AllReduce", b"Broadcast", b"Send", b"Recv", b"ncclFloat32", b"ncclInt8", b"", b"x" * 4000, b"\xff\xfe"]
_START = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p)


class Profiler(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("init", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("stop", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        ("record", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)),
        ("finalize", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
    )


class PluginTarget:
    name: ClassVar[str] = "plugin"

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._library = build.build(Path(self._directory.name) / build.LIBRARY_NAME)

    async def feed(self, draws: random.Random) -> Counter[str]:
        seed = draws.getrandbits(32)
        environment = os.environ | {"PACELINE_SHM_DIR": self._directory.name, "PACELINE_JOB": "fuzz"}
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "bench.fuzz.plugin", str(self._library), str(seed), str(BATCH)),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await child.communicate()
        if child.returncode:
            raise RuntimeError(f"events of seed {seed}: exit status {child.returncode} {said.decode()[-300:]}")
        return Counter({"taken": BATCH})

    async def close(self) -> None:
        self._directory.cleanup()


def main(library: str, seed: int, count: int) -> None:
    loaded, draws = ctypes.CDLL(library), random.Random(seed)
    version = draws.choice(VERSIONS)
    plugin = Profiler.in_dll(loaded, f"ncclProfiler_v{version}")
    start = _START(plugin.start)
    texts = [ctypes.create_string_buffer(text) for text in TEXTS]
    contexts = [_init(plugin, version, draws) for _ in range(3)]
    handles: list[int] = []
    for _ in range(count):
        chance = draws.random()
        if chance < 0.6:
            handle = ctypes.c_void_p(0)
            context, event = _event(draws, contexts, handles, texts, version)
            if start(context, ctypes.byref(handle), event) != 0:
                raise SystemExit("startEvent returned an error")
            if handle.value:
                handles = [*handles[-50:], handle.value]
        elif chance < 0.9:
            arguments = draws.randbytes(64) if draws.random() < 0.9 else None
            if plugin.record(draws.choice([0, *handles]), _number(draws), arguments) != 0:
                raise SystemExit("recordEventState returned an error")
        elif chance < 0.99:
            handle_at = draws.randrange(len(handles)) if handles else None
            if plugin.stop(handles.pop(handle_at) if handle_at is not None else 0) != 0:
                raise SystemExit("stopEvent returned an error")
        else:
            plugin.finalize(contexts.pop(draws.randrange(len(contexts))))
            handles.clear()
            contexts.append(_init(plugin, version, draws))


def _init(plugin: Profiler, version: int, draws: random.Random) -> int:
    context, mask = ctypes.c_void_p(0), ctypes.c_int(0)
    # Kept by the plugin for as long as the context lives.
    _MASKS.append(mask)
    number, ranks, rank = ctypes.c_uint64(draws.getrandbits(64)), _number(draws), _number(draws)
    at, name = ctypes.byref(context), draws.choice((b"comm", None, b"y" * 500))
    if version >= 5:
        kinds: tuple[Any, ...] = (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p)
        given: tuple[Any, ...] = (number, ctypes.byref(mask), name)
    else:
        kinds, given = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64), (ctypes.byref(mask), name, number)
    called = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *kinds, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p
    )
    if called(plugin.init)(at, *given, 2, ranks, rank, None) != 0:
        raise SystemExit("init returned an error")
    return context.value or 0


_MASKS: list[ctypes.c_int] = []


def _event(
    draws: random.Random, contexts: list[int], handles: list[int], texts: list[Any], version: int
) -> tuple[int, bytes]:
    """A context and a descriptor."""
    event = bytearray(draws.randbytes(DESCRIPTOR_BYTES)) if draws.random() < 0.5 else bytearray(DESCRIPTOR_BYTES)
    kind, context = draws.choice(TYPES), draws.choice([0, *contexts])
    event[0:8] = kind.to_bytes(8, "little")
    if version == 4:
        kind &= 0xFF
    event[8:16] = (draws.choice([0, *handles])).to_bytes(8, "little")
    for at in TEXTS_AT.get(kind, ()):
        text = draws.choice([None, *texts])
        event[at : at + 8] = (0 if text is None else ctypes.addressof(text)).to_bytes(8, "little")
    for at in range(16, DESCRIPTOR_BYTES, 4):
        if draws.random() < 0.1 and not any(text <= at < text + 8 for text in TEXTS_AT.get(kind, ())):
            event[at : at + 4] = (_number(draws) & 0xFFFF_FFFF).to_bytes(4, "little")
    if kind == PROXY_OP:
        own = draws.random() < 0.7
        event[24:28] = (os.getpid() if own else 1).to_bytes(4, "little")
        context = context if own else draws.getrandbits(47)
    return context, bytes(event)


def _number(draws: random.Random) -> int:
    return draws.choice((0, 1, 2, 7, 9, 11, -1, 64, 2**31 - 1, -(2**31), draws.getrandbits(31)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

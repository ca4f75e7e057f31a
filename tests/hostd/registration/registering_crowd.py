"""A process that registers more names than any job has, has as many connections, and events without end.

registering_crowd.py SOCKET ADDRESS PORT NAMES SOCKETS
"""

import ctypes
import encodings.idna  # noqa: F401  # what create_connection imports; nobody may not read it
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from nccl_shim.segment.identity import Identity
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.python_writer import PythonWriter

NOBODY = 65534
DATA = bytes(300_000)  # enough to be taken for a data socket


def main() -> None:
    path, address, port, names, count = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
    os.setgroups([]), os.setgid(NOBODY), os.setuid(NOBODY)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as an exec does: what it has in /proc is its user's
    sockets = [socket.create_connection((address, port)) for _ in range(count)]
    for one in sockets:
        one.sendall(DATA)
    writers = []
    for number in range(names):
        with suppress(OSError):
            writers.append(PythonWriter.at_hostd(Identity(f"crowd{number}", Path("/"), socket=path)))
    record = writers[0].find(Kind.COLLECTIVE, Source.TORCH, 1, 0, 2, -1)
    print("crowded", flush=True)
    while True:
        writers[0].enqueue(record, 1000, 1000)
        writers[0].end_iteration()
        time.sleep(0.001)


main()

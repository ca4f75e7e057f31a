"""Jobs of one user, in one process each: every one sends bursts to a host, and counts iterations.

bursting_job.py UID SOCKET ADDRESS PORT COUNTED LIES NAME…

COUNTED: how many iterations each says it has ended before, as a job may that lies; for so many seconds it does.
"""

import ctypes
import encodings.idna  # noqa: F401  # what create_connection imports, and other users may not read
import os
import socket
import sys
import time
from pathlib import Path

from nccl_shim.segment import layout
from nccl_shim.segment.identity import Identity, weight_milli_of
from nccl_shim.segment.python_writer import PythonWriter

BURST = bytes(1_250_000)
COMPUTE_S = 0.1


def main() -> None:
    uid, path, address = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    port, counted, lies_s = map(int, sys.argv[4:7])
    os.setgroups([]), os.setgid(uid), os.setuid(uid)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as an exec does: what it has in /proc is its user's
    for name in sys.argv[7:]:
        if not os.fork():
            send(name, path, address, port, counted, lies_s)
    print("started", flush=True)
    time.sleep(600)


def send(name: str, path: Path, address: str, port: int, counted: int, lies_s: int) -> None:
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG: it ends with the test
    weight = weight_milli_of(os.environ.get("PACELINE_WEIGHT", ""))
    connection = socket.create_connection((address, port))
    writer = PythonWriter.at_hostd(Identity(name, Path("/"), 0, 2, weight_milli=weight, socket=path))
    record = writer.find(layout.Kind.COLLECTIVE, layout.Source.TORCH, 1, 0, 2, -1)
    for _ in range(3):
        iterate(writer, record, connection)
    if counted:
        count(writer, counted)
        until_s = time.monotonic() + lies_s
        while time.monotonic() < until_s:
            iterate(writer, record, connection)
        count(writer, 100)
    while True:
        iterate(writer, record, connection)


def iterate(writer: PythonWriter, record: int, connection: socket.socket) -> None:
    writer.enqueue(record, len(BURST), len(BURST))
    connection.sendall(BURST)
    writer.transmit(record, len(BURST), 0)
    writer.end_iteration()
    time.sleep(COMPUTE_S)


def count(writer: PythonWriter, iterations: int) -> None:
    header = layout.Header.from_buffer(writer._map)
    stored = header.iteration
    words = (stored.seq, iterations, stored.start_ns, stored.enqueued_at_start, stored.tx_at_start)
    words = (*words, stored.last_enqueued, stored.last_duration_ns)
    stored.iteration, stored.check = iterations, layout.check_word(words)


main()

"""Cross traffic: one TCP connection outside all control that sends in bursts, no faster than it is told.

It is cubic, as most of the world is, whatever congestion control the jobs are compared under.

The source prints the lines of runner_protocol.py; instead of an iteration's end it prints, after each burst, the bytes
that the other side has acknowledged so far.
"""

import random
import socket
import struct
import time

from bench.workload.exchange import CHUNK_BYTES, connect, listen
from bench.workload.runner_protocol import wait_for_go

CONGESTION_CONTROL = b"cubic"
_SO_MAX_PACING_RATE = 47
_TCP_INFO_BYTES, _BYTES_ACKED_AT = 128, 120


def sink(address: str, port: str) -> None:
    with listen(address, int(port)) as listener:
        connection, _ = listener.accept()
    wait_for_go()
    buffer = bytearray(CHUNK_BYTES)
    while connection.recv_into(buffer):
        pass


def source(address: str, port: str, every_s: str, shortest_s: str, longest_s: str, bps: str, seed: str) -> None:
    draws = random.Random(seed)
    connection = connect(address, int(port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
    connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", int(float(bps) / 8)))
    block = bytes(CHUNK_BYTES)
    wait_for_go()
    begin_s = time.monotonic()
    while True:
        lasts_s = min(draws.uniform(float(shortest_s), float(longest_s)), float(every_s))
        while (left_s := begin_s + lasts_s - time.monotonic()) > 0:
            connection.settimeout(left_s)
            try:
                connection.send(block)
            except TimeoutError:
                break
        print(acknowledged_bytes(connection), flush=True)
        begin_s += float(every_s)
        time.sleep(max(0.0, begin_s - time.monotonic()))


def acknowledged_bytes(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return int(struct.unpack_from("=Q", info, _BYTES_ACKED_AT)[0])


def main(role: str, *arguments: str) -> None:
    if role == "source":
        source(*arguments)
    else:
        sink(*arguments)

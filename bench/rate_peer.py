"""The two ends of bench/rate.py, each a process of its own: `send` keeps its sockets full, `receive` empties them and
writes down what arrives.

Arrivals are seen on the device, with the kernel's own timestamp, before TCP and before any process has to wake up: on
a busy machine a reader's clock would show when it was scheduled. Buffers are large enough for either end to sleep
through a slot.
"""

import select
import socket
import struct
import sys
from pathlib import Path

BUFFER_BYTES = 16 << 20
RECORD = struct.Struct("=HHIq")  # sender's port, segments, payload bytes, wall clock in ns
ETH_P_IP = 0x0800
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 32, 33, 35
_HEADER_BYTES = 64  # enough for IP and TCP with their usual options
_PAYLOAD_PER_SEGMENT = 1448


def send(address: str, port: int, count: int, congestion_control: str) -> None:
    """Prints the local ports, then sends until killed."""
    sockets = {}
    waiting = select.epoll()
    for _ in range(count):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, BUFFER_BYTES)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
        one.connect((address, port))
        one.setblocking(False)
        sockets[one.fileno()] = one
        waiting.register(one, select.EPOLLOUT)
    print(*(one.getsockname()[1] for one in sockets.values()), flush=True)
    data = bytes(1 << 20)
    while True:
        for number, _ in waiting.poll():
            sockets[number].send(data)


def receive(port: int, device: str, records: Path) -> None:
    """Prints a line when it listens; ends with its standard input, and leaves the records in the file."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    tap.bind((device, ETH_P_IP))
    tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 4 * BUFFER_BYTES)
    tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
    listener.bind(("", port))
    listener.listen(64)
    print("listening", flush=True)
    sockets: dict[int, socket.socket] = {}
    unused = bytearray(BUFFER_BYTES)
    waiting = select.epoll()
    for one in (tap, listener, sys.stdin):
        waiting.register(one, select.EPOLLIN)
    with records.open("wb") as out:
        while True:
            for number, _ in waiting.poll():
                if number == tap.fileno():
                    out.write(_arrivals(tap))
                elif number == listener.fileno():
                    connection = listener.accept()[0]
                    sockets[connection.fileno()] = connection
                    waiting.register(connection, select.EPOLLIN)
                elif number == sys.stdin.fileno():
                    out.write(_arrivals(tap))
                    return
                else:
                    # MSG_TRUNC: taken from the queue without being copied.
                    sockets[number].recv_into(unused, BUFFER_BYTES, socket.MSG_TRUNC)


def _arrivals(tap: socket.socket) -> bytes:
    found = bytearray()
    while True:
        try:
            header, ancillary, _, _ = tap.recvmsg(_HEADER_BYTES, 64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return bytes(found)
        ip_bytes = (header[0] & 15) * 4
        tcp_bytes = (header[ip_bytes + 12] >> 4) * 4
        payload_bytes = int.from_bytes(header[2:4], "big") - ip_bytes - tcp_bytes
        if payload_bytes > 0:
            port = int.from_bytes(header[ip_bytes : ip_bytes + 2], "big")
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
            segments = -(-payload_bytes // _PAYLOAD_PER_SEGMENT)
            found += RECORD.pack(port, segments, payload_bytes, seconds * 1_000_000_000 + nanoseconds)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        receive(int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))

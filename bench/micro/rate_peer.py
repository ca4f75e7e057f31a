"""The two ends of bench/micro/rate.py, each its own process: `send` keeps its sockets full, `receive` empties them and
writes down when which bytes arrive.

Arrivals are noted by the kernel on the device (a packet ring), before TCP and before any process has to wake up: on a
busy machine a reader's clock would show when the reader was scheduled. The connections' buffers are large enough for
either end to sleep through a slot.
"""

import mmap
import select
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

RECORD = struct.Struct("=HHIq")  # sender's port, segments, payload bytes, wall clock in ns
_CHUNK_BYTES = 1 << 20
_PAYLOAD_PER_SEGMENT = 1448  # Ethernet's 1500 without IP and TCP with timestamps


def send(address: str, port: int, count: int, congestion_control: str) -> None:
    """Prints the local ports, then sends until killed."""
    sockets = {}
    waiting = select.epoll()
    for _ in range(count):
        one = socket.create_connection((address, port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
        one.setblocking(False)
        sockets[one.fileno()] = one
        waiting.register(one, select.EPOLLOUT)
    print(*(one.getsockname()[1] for one in sockets.values()), flush=True)
    data = bytes(_CHUNK_BYTES)
    while True:
        for number, _ in waiting.poll():
            sockets[number].send(data)


def receive(port: int, device: str, records: Path) -> None:
    """Prints a line when it listens; ends with its standard input, and leaves the records in the file."""
    ring = PacketRing(device)
    listener = socket.create_server(("", port), backlog=64)
    print("listening", flush=True)
    sockets: dict[int, socket.socket] = {}
    unused = bytearray(_CHUNK_BYTES)
    waiting = select.epoll()
    for source in (ring.socket, listener, sys.stdin):
        waiting.register(source, select.EPOLLIN)
    with records.open("wb") as out:
        while True:
            ready = [number for number, _ in waiting.poll()]
            for number in ready:
                if number == listener.fileno():
                    connection = listener.accept()[0]
                    sockets[connection.fileno()] = connection
                    waiting.register(connection, select.EPOLLIN)
                # MSG_TRUNC: taken from the queue without being copied.
                elif number in sockets and not sockets[number].recv_into(unused, 0, socket.MSG_TRUNC):
                    sockets.pop(number).close()
            out.writelines(ring.arrivals())
            if sys.stdin.fileno() in ready:
                return


class PacketRing:
    """Headers of the TCP packets that arrive on a device, and when: memory shared with the kernel (TPACKET_V2)."""

    _SOL_PACKET, _RX_RING, _VERSION, _V2 = 263, 5, 10, 1
    _ETH_P_IP = 0x0800
    _FRAME_BYTES, _BLOCK_BYTES, _BLOCKS = 128, 1 << 16, 256
    _HEADER = struct.Struct("=IIIHHII")  # status, length, captured, mac and net offset, seconds, nanoseconds
    _FILLED = 1

    def __init__(self, device: str) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        size_bytes = self._BLOCK_BYTES * self._BLOCKS
        self._frames = size_bytes // self._FRAME_BYTES
        self._next = 0
        layout = struct.pack("=IIII", self._BLOCK_BYTES, self._BLOCKS, self._FRAME_BYTES, self._frames)
        self.socket.setsockopt(self._SOL_PACKET, self._VERSION, self._V2)
        self.socket.setsockopt(self._SOL_PACKET, self._RX_RING, layout)
        self._memory = mmap.mmap(self.socket.fileno(), size_bytes)
        self.socket.bind((device, self._ETH_P_IP))  # one protocol: what arrives, not what leaves

    def arrivals(self) -> Iterator[bytes]:
        """A record for each packet with payload since the last call."""
        memory = self._memory
        while True:
            at = self._next * self._FRAME_BYTES
            status, _, _, _, net, seconds, nanoseconds = self._HEADER.unpack_from(memory, at)
            if not status & self._FILLED:
                return
            ip = at + net
            tcp = ip + (memory[ip] & 15) * 4
            data = tcp + (memory[tcp + 12] >> 4) * 4
            payload_bytes = int.from_bytes(memory[ip + 2 : ip + 4], "big") - (data - ip)
            if payload_bytes > 0:
                port = int.from_bytes(memory[tcp : tcp + 2], "big")
                segments = -(-payload_bytes // _PAYLOAD_PER_SEGMENT)
                yield RECORD.pack(port, segments, payload_bytes, seconds * 1_000_000_000 + nanoseconds)
            memory[at : at + 4] = bytes(4)  # the kernel's again
            self._next = (self._next + 1) % self._frames


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        receive(int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))

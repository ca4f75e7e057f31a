"""Flows over plain sockets, each limited by the bytes that it depends on.

A sender may have sent at most `limit()` bytes, counted from the beginning of the job; receivers take what comes. The
bytes that the kernel has accepted and not yet sent are kept few (TCP_NOTSENT_LOWAT), so that "sent" means sent.
"""

import select
import socket
import time
from collections.abc import Callable, Sequence

from nccl_shim.segment.writer import Writer

CHUNK_BYTES = 1 << 18
_BLOCK = memoryview(bytes(CHUNK_BYTES))
_CONNECT_S = 120.0
_TCP_NOTSENT_LOWAT = 25


class Sender:
    def __init__(self, connection: socket.socket, limit: Callable[[], int], writer: Writer, record: int | None) -> None:
        self.connection, self.limit = connection, limit
        self._writer, self._record = writer, record
        self.sent_bytes = 0
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, CHUNK_BYTES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)

    def announce(self, size_bytes: int, payload_bytes: int | None = None) -> None:
        """So many more bytes wait to be sent; they carry so much of the job's payload (default: as much)."""
        self._writer.enqueue(self._record, size_bytes if payload_bytes is None else payload_bytes, size_bytes)

    def send(self) -> None:
        count = self.connection.send(_BLOCK[: self.limit() - self.sent_bytes])
        self.sent_bytes += count
        self._writer.transmit(self._record, count, 0)


class PeersLeft(ConnectionError):
    """All peers have closed their connections."""


class Receiver:
    left = False  # the other side has closed the connection

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received_bytes = 0
        self._buffer = bytearray(CHUNK_BYTES)
        connection.setblocking(False)

    def receive(self) -> None:
        count = self.connection.recv_into(self._buffer)
        self.left = count == 0
        self.received_bytes += count


def exchange(senders: Sequence[Sender], receivers: Sequence[Receiver], done: Callable[[], bool]) -> None:
    """Moves bytes until `done`."""
    while not done():
        receivers = [receiver for receiver in receivers if not receiver.left]
        able = [sender for sender in senders if sender.sent_bytes < sender.limit()]
        if not receivers and not able:
            raise PeersLeft
        readable, writable, _ = select.select(
            [receiver.connection for receiver in receivers], [sender.connection for sender in able], []
        )
        for receiver in receivers:
            if receiver.connection in readable:
                receiver.receive()
        for sender in able:
            if sender.connection in writable:
                sender.send()


def listen(address: str, port: int) -> socket.socket:
    return socket.create_server((address, port), backlog=128)


def connect(address: str, port: int) -> socket.socket:
    """Waits for a listener that is not there yet."""
    deadline_s = time.monotonic() + _CONNECT_S
    while True:
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)

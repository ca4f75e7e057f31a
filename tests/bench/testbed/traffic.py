"""Moving bytes between two nodes of a testbed, and what the receiver saw of it."""

import socket
import threading
import time
from dataclasses import dataclass

from bench.testbed.network import Testbed

TIMEOUT_S = 60
_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Transfer:
    received_bytes: int
    started_s: float  # when the first byte came, on the monotonic clock
    ended_s: float
    congestion_control: tuple[str, str]  # of the connecting and of the accepting side

    @property
    def rate_bps(self) -> float:
        """Of payload."""
        return 8 * self.received_bytes / (self.ended_s - self.started_s)


def send(testbed: Testbed, source: str, target: str, size_bytes: int) -> Transfer:
    """One TCP connection from host to host over the data network."""
    with testbed.nodes[target].enter():
        listener = socket.create_server((str(testbed.addresses.data[target]), 0))
    with testbed.nodes[source].enter():
        sender = socket.create_connection(listener.getsockname(), timeout=TIMEOUT_S)
    receiver, _ = listener.accept()
    receiver.settimeout(TIMEOUT_S)
    with listener, sender, receiver:
        used = congestion_control(sender), congestion_control(receiver)
        thread = threading.Thread(target=_send_all, args=(sender, size_bytes))
        thread.start()
        received_bytes = len(receiver.recv(1))
        started_s = time.monotonic()
        while chunk := receiver.recv(_CHUNK_BYTES):
            received_bytes += len(chunk)
        ended_s = time.monotonic()
        thread.join()
    return Transfer(received_bytes, started_s, ended_s, used)


def _send_all(sender: socket.socket, size_bytes: int) -> None:
    block = memoryview(bytes(_CHUNK_BYTES))
    for start in range(0, size_bytes, _CHUNK_BYTES):
        sender.sendall(block[: size_bytes - start])
    sender.shutdown(socket.SHUT_WR)


def congestion_control(connection: socket.socket) -> str:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()

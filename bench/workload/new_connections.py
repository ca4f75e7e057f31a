"""Traffic of others as the paper has it: from a host, every so often, a new TCP connection to a host drawn anew.

It sends as fast as the kernel's usual TCP lets it, whatever the jobs' sockets have. The source prints the lines of
runner_protocol.py; instead of an iteration's end it prints, after each connection, the bytes acknowledged so far.
"""

import random
import selectors
import socket
import time
from itertools import count

from bench.workload.cross_traffic import CONGESTION_CONTROL, acknowledged_bytes
from bench.workload.exchange import CHUNK_BYTES, connect, listen
from bench.workload.runner_protocol import wait_for_go

_TCP_NOTSENT_LOWAT = 25


def sink(address: str, port: str) -> None:
    """Reads whatever anybody sends, until it is killed."""
    buffer = bytearray(CHUNK_BYTES)
    with listen(address, int(port)) as listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        wait_for_go()
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket) and not key.fileobj.recv_into(buffer):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


def source(port: str, every_s: str, shortest_s: str, longest_s: str, seed: str, *addresses: str) -> None:
    draws = random.Random(seed)
    wait_for_go()
    first_s, sent_bytes = time.monotonic() + draws.uniform(0.0, float(every_s)), 0  # hosts do not begin together
    for number in count():
        begin_s = first_s + number * float(every_s)
        time.sleep(max(0.0, begin_s - time.monotonic()))
        target, lasts_s = draws.choice(addresses), draws.uniform(float(shortest_s), float(longest_s))
        with connect(target, int(port)) as connection:
            sent_bytes += _send_until(connection, begin_s + lasts_s)
        print(sent_bytes, flush=True)


def _send_until(connection: socket.socket, end_s: float) -> int:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
    # What has been written is sent even after the end: so let it be little.
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, CHUNK_BYTES)
    block = bytes(CHUNK_BYTES)
    while (left_s := end_s - time.monotonic()) > 0:
        connection.settimeout(left_s)
        try:
            connection.send(block)
        except TimeoutError:
            break
    return acknowledged_bytes(connection)


def main(role: str, *arguments: str) -> None:
    if role == "source":
        source(*arguments)
    else:
        sink(*arguments)

"""A path with a delay between two network namespaces: a thread carries the packets, no module of the kernel is needed.

here ──▶ tun ──▶ queue of a link ──▶ delay ──▶ tun ──▶ there
"""

import fcntl
import os
import select
import struct
import threading
import time
from collections import deque
from contextlib import ExitStack
from typing import Self

from bench.testbed.namespace import Namespace

HERE, THERE = "10.96.0.1", "10.96.0.2"
_DEVICE, _PACKET_BYTES = "path0", 1500
_TUNSETIFF, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
_DATA_BYTES = 1000  # more than a packet without any
_LONGEST_S = 0.05


class Path:
    """Up within the block."""

    def __init__(self, rate_bps: float, round_trip_s: float, queue_s: float) -> None:
        self._rate_bps, self._delay_s, self._queue_s = rate_bps, round_trip_s / 2, queue_s
        self._stack = ExitStack()
        self._ended = threading.Event()
        self._drops_next = False

    def drop_next(self) -> None:
        """The next packet with data from here to there is lost."""
        self._drops_next = True

    def __enter__(self) -> Self:
        with self._stack as stack:
            self.here, self.there = (stack.enter_context(Namespace(name)) for name in ("here", "there"))
            self._tuns = [
                self._tun(self.here, HERE, THERE),
                self._tun(self.there, THERE, HERE),
            ]
            thread = threading.Thread(target=self._carry, daemon=True)
            thread.start()
            stack.callback(thread.join, 5)
            stack.callback(self._ended.set)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    def _tun(self, namespace: Namespace, own: str, other: str) -> int:
        with namespace.enter():
            descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", _DEVICE.encode(), _TUN_WITHOUT_HEADER))
        self._stack.callback(os.close, descriptor)
        netlink, index = namespace.netlink, namespace.index_of(_DEVICE)
        netlink.addr("add", index=index, local=own, address=other, prefixlen=32)
        netlink.link("set", index=index, state="up", txqlen=10_000)
        return descriptor

    def _carry(self) -> None:
        here, there = self._tuns
        forth, back = deque[tuple[float, bytes]](), deque[tuple[float, bytes]]()
        free_s = 0.0  # when the link has sent what is in its queue
        while not self._ended.is_set():
            now_s = time.monotonic()
            for due, target in ((forth, there), (back, here)):
                while due and due[0][0] <= now_s:
                    os.write(target, due.popleft()[1])
            next_s = min((due[0][0] for due in (forth, back) if due), default=now_s + _LONGEST_S)
            ready, _, _ = select.select(self._tuns, [], [], max(0.0, next_s - time.monotonic()))
            now_s = time.monotonic()
            for packet in _packets(here) if here in ready else ():
                if self._drops_next and len(packet) > _DATA_BYTES:
                    self._drops_next = False
                    continue
                if free_s - now_s > self._queue_s:
                    continue
                free_s = max(free_s, now_s) + 8 * len(packet) / self._rate_bps
                forth.append((free_s + self._delay_s, packet))
            for packet in _packets(there) if there in ready else ():
                back.append((now_s + self._delay_s, packet))


def _packets(tun: int) -> list[bytes]:
    found: list[bytes] = []
    try:
        while len(found) < 64:
            found.append(os.read(tun, _PACKET_BYTES))
    except BlockingIOError:
        pass
    return found

"""MLTCP in the kernel: the window of a socket that is further in its iteration grows faster."""

import struct
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from socket import IPPROTO_TCP, TCP_INFO, create_connection, create_server, socket

import pytest

from bench.mltcp.control import NAME, Iteration, Mltcp
from bench.testbed.network import Testbed
from paceline.flowcore.allocation.aggressiveness import PUBLISHED_CODE
from paceline.flowcore.model.topology import star

pytestmark = [pytest.mark.root, pytest.mark.slow]

EVERY_S, LOOKS = 0.05, 80
DATA = bytes(1 << 16)


def test_the_end_of_an_iteration_beats_its_beginning() -> None:
    """F(1) = 4.25 against F(0) = 0.25. They meet in the switch: a host's own line drops nothing."""
    with Mltcp() as mltcp, Testbed(star(3, 0.2), NAME) as testbed, ExitStack() as stack:
        address = (str(testbed.addresses.data["h2"]), 7000)
        with testbed.nodes["h2"].enter():
            listener = stack.enter_context(create_server(address))
        senders = []
        for host, size_bytes in (("h0", 1e3), ("h1", 1e15)):  # over long ago; only begun
            with testbed.nodes[host].enter():
                senders.append(stack.enter_context(create_connection(address)))
            mltcp.tell(senders[-1].fileno(), Iteration(size_bytes, 10.0, *PUBLISHED_CODE))
            _keep_sending(senders[-1], stack.enter_context(listener.accept()[0]))
        ended, begun = _growth(senders)
        assert begun > 0 and ended > 4 * begun, "17 times as fast, where nothing else limits it"


def _growth(senders: list[socket]) -> list[int]:
    """What each window gained without a loss in between."""
    gained, before = [0] * len(senders), [_window(sender) for sender in senders]
    for _ in range(LOOKS):
        time.sleep(EVERY_S)
        now = [_window(sender) for sender in senders]
        for number, ((threshold, window), (_, was)) in enumerate(zip(now, before, strict=True)):
            if threshold == before[number][0] and threshold < window:  # in congestion avoidance
                gained[number] += max(0, window - was)
        before = now
    return gained


def _window(sender: socket) -> tuple[int, int]:
    """Slow start's threshold and the window, in packets."""
    threshold, window = struct.unpack_from("=II", sender.getsockopt(IPPROTO_TCP, TCP_INFO, 104), 8 + 17 * 4)
    return threshold, window


def _keep_sending(sender: socket, receiver: socket) -> None:
    """For as long as the sockets live."""

    def forever(work: Callable[[], object]) -> None:
        with suppress(OSError):
            while sender.fileno() >= 0:
                work()

    for work in (lambda: sender.sendall(DATA), lambda: receiver.recv(1 << 20)):
        threading.Thread(target=forever, args=(work,), daemon=True).start()

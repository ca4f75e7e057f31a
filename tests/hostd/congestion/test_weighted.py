"""The congestion control `paceline`: a window for w sockets, from one moment to the next."""

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from socket import IPPROTO_TCP, TCP_CONGESTION, TCP_INFO, create_connection, create_server, socket

import pytest

from bench.micro.weight import streaming
from bench.testbed.network import Testbed
from hostd.congestion.weighted import NAME, Weighted
from paceline.flowcore.model.topology import star

pytestmark = pytest.mark.root


def window(sender: socket) -> int:
    return int(struct.unpack_from("=I", sender.getsockopt(IPPROTO_TCP, TCP_INFO, 104), 8 + 18 * 4)[0])


@contextmanager
def stream(testbed: Testbed) -> Iterator[socket]:
    """From h0 to h1; its sender."""
    with ExitStack() as stack:
        address = (str(testbed.addresses.data["h1"]), 7000)
        with testbed.nodes["h1"].enter():
            listener = stack.enter_context(create_server(address))
        with testbed.nodes["h0"].enter():
            sender = stack.enter_context(create_connection(address))
        sender.setsockopt(IPPROTO_TCP, TCP_CONGESTION, NAME.encode())
        receiver = stack.enter_context(listener.accept()[0])
        stack.enter_context(streaming(sender, receiver))
        yield sender


def test_another_weight_is_another_window_at_once() -> None:
    with Weighted() as weighted, Testbed(star(2, 0.2)) as testbed, stream(testbed) as sender:
        time.sleep(0.5)
        for weight, least, most in ((16.0, 8.0, 32.0), (1.0, 1 / 32, 1 / 8)):
            before = window(sender)
            weighted.tell(sender.fileno(), weight)
            time.sleep(0.1)  # in which it grows or backs off, too
            assert least * before < window(sender) < most * before

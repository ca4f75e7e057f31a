"""What a loss takes from the window of our congestion control, on a path with a delay."""

import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path as File
from socket import (
    IPPROTO_TCP,
    MSG_WAITALL,
    SO_RCVTIMEO,
    SOL_SOCKET,
    TCP_CONGESTION,
    TCP_INFO,
    create_connection,
    create_server,
    socket,
)
from typing import NamedTuple

import pytest

from bench.micro.weight import streaming
from hostd.congestion.weighted import Weighted
from tests.hostd.conftest import wait_until
from tests.hostd.congestion.path import THERE, Path

pytestmark = pytest.mark.root

MBPS = 50.0
ROUND_TRIP_S = 0.02  # 80 packets are on their way at that rate
LEAST_WINDOW = 60  # packets, of one that may send as much as it does
WITHIN_S = 10.0
NAME, CUBIC = f"paceline{os.getpid():x}"[:15], "cubic"  # hosts share a kernel with other tests
SO_MAX_PACING_RATE = 47
AFTER_IDLE = File("/proc/sys/net/ipv4/tcp_slow_start_after_idle")  # 0: a window outlasts a pause


class Window(NamedTuple):
    """In packets."""

    now: int
    threshold: int
    lost: int  # packets, since the beginning


def window(sender: socket) -> Window:
    found = sender.getsockopt(IPPROTO_TCP, TCP_INFO, 104)
    threshold, now = struct.unpack_from("=2I", found, 8 + 17 * 4)
    return Window(now, threshold, struct.unpack_from("=I", found, 8 + 23 * 4)[0])


@contextmanager
def connections(path: Path, controls: Sequence[str]) -> Iterator[list[tuple[socket, socket]]]:
    """Over the path, a sender with each of these controls and its receiver."""
    with ExitStack() as stack:
        with path.there.enter():
            listener = stack.enter_context(create_server((THERE, 7000)))
        found = []
        for control in controls:
            with path.here.enter():
                sender = stack.enter_context(create_connection(listener.getsockname()))
            sender.setsockopt(IPPROTO_TCP, TCP_CONGESTION, control.encode())
            found.append((sender, stack.enter_context(listener.accept()[0])))
        yield found


def mbps(path: Path, controls: Sequence[str], lasts_s: float) -> list[float]:
    """What arrives of each, all at once."""
    with Weighted(NAME), connections(path, controls) as pairs, ExitStack() as stack:
        counts = [stack.enter_context(streaming(*pair)) for pair in pairs]
        time.sleep(1.0)
        before = [count() for count in counts]
        time.sleep(lasts_s)
        return [8e-6 * (count() - earlier) / lasts_s for count, earlier in zip(counts, before, strict=True)]


def settled(sender: socket) -> Window:
    """Once it grows no more: less is sent than it allows."""
    before, began_s = Window(0, 0, 0), time.monotonic()
    while (found := window(sender)) != before or found.now < LEAST_WINDOW:
        assert time.monotonic() - began_s < WITHIN_S, f"{found.now} packets, and it does not settle"
        before = found
        time.sleep(5 * ROUND_TRIP_S)
    return found


@pytest.mark.parametrize(("weight", "left"), [(1.0, 0.7), (2.0, 0.82), (4.0, 0.9)])
def test_what_a_loss_leaves_of_the_window(weight: float, left: float) -> None:
    with (
        Path(MBPS * 1e6, ROUND_TRIP_S, queue_s=0.1) as path,
        Weighted(NAME) as weighted,
        connections(path, [NAME]) as [(sender, receiver)],
    ):
        sender.setsockopt(SOL_SOCKET, SO_MAX_PACING_RATE, int(0.6 * MBPS * 1e6 / 8))  # no queue
        weighted.tell(sender.fileno(), weight)
        with streaming(sender, receiver):

            def loses_a_packet() -> float:
                """What the threshold is of the window before."""
                settled(sender)
                path.drop_next()
                before = window(sender)  # within a round trip of the loss: now and then it still grows
                wait_until(lambda: window(sender).lost > before.lost)
                return window(sender).threshold / before.now

            for _ in range(2):
                assert loses_a_packet() == pytest.approx(left, abs=0.03)


@pytest.mark.slow
def test_at_a_queue_it_backs_off_as_cubic_does() -> None:
    with Path(MBPS * 1e6, ROUND_TRIP_S, queue_s=0.03) as path:
        ours, cubic = mbps(path, [NAME, CUBIC], 12.0)
        assert ours + cubic > 0.8 * MBPS and 0.25 < ours / (ours + cubic) < 0.75


@pytest.mark.slow
def test_a_pause_is_none_of_the_curves_time() -> None:
    """In three seconds it would have come back to where it was."""
    with (
        Path(MBPS * 1e6, ROUND_TRIP_S, queue_s=0.1) as path,
        Weighted(NAME),
        connections(path, [NAME]) as [(sender, receiver)],
    ):
        with path.here.enter():
            AFTER_IDLE.write_text("0", encoding="ascii")

        def send(size: int) -> None:
            threading.Thread(target=sender.sendall, args=(bytes(size),), daemon=True).start()
            assert len(receiver.recv(size, MSG_WAITALL)) == size

        receiver.setsockopt(SOL_SOCKET, SO_RCVTIMEO, struct.pack("ll", int(WITHIN_S), 0))
        send(100_000)
        path.drop_next()
        send(60_000)
        send(60_000)  # it grows again
        backed_off = window(sender)
        assert backed_off.lost and backed_off.threshold < 80, "no queue has limited it"
        time.sleep(3.0)
        send(200_000)
        assert window(sender).now < 1.15 * backed_off.threshold

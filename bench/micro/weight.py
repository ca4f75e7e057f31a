"""The part of a link that a socket of weight w gets beside one of cubic; ideal is w/(w + 1).

Senders on two hosts, one receiver: the queue of the switch's port decides. A run says little: two sockets of cubic are
mostly unequal for as long, too. So there are repeats, in every second of which the other one begins; on slow links
several at once, each in a network of its own.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import IPPROTO_TCP, MSG_TRUNC, TCP_CONGESTION, create_connection, create_server, socket
from statistics import median

from bench.testbed.network import Testbed
from hostd.congestion.libbpf import NAME_BYTES
from hostd.congestion.weighted import NAME, Weighted
from paceline.flowcore.model.topology import star

AT_ONCE_GBPS = 2.0  # repeats that go on at once carry so much; more would be a matter of the CPU
SETTLES = 1 / 3  # of the time: windows meet after tens of losses
PORT = 7000
BUFFERS = "4096 131072 67108864"  # the kernel's 4 MB would hold windows down at several Gbit/s, and no packet be lost
MOST_BYTES = 1 << 20  # of a call


@dataclass(frozen=True, slots=True)
class Share:
    gbps: float
    weight: float
    shares: tuple[float, ...]  # of the weighted socket, by repeat
    carried_gbps: float  # by both; less than the link's where the CPU is the bottleneck, and shares say nothing

    @property
    def median(self) -> float:
        return median(self.shares)

    @property
    def ideal(self) -> float:
        return self.weight / (self.weight + 1)


def measure(
    gbps: Sequence[float],
    weights: Sequence[float],
    repeats: int,
    lasts_s: float,
    tick: Callable[[], None],
    *,
    cubic: bool = False,
) -> Iterator[Share]:
    """`cubic`: both sockets are of cubic. Raises BpfError where the kernel cannot have the control."""
    with ExitStack() as stack:
        weighted = None if cubic else stack.enter_context(Weighted(f"{NAME}{os.getpid():x}"[: NAME_BYTES - 1]))
        for rate in gbps:
            pool = stack.enter_context(ThreadPoolExecutor(max(1, int(AT_ONCE_GBPS / rate))))
            for weight in weights:
                runs = [
                    pool.submit(_rates_gbps, weighted, rate, weight, lasts_s, first=repeat % 2 == 0)
                    for repeat in range(repeats)
                ]
                rates_gbps = []
                for run in runs:
                    rates_gbps.append(run.result())
                    tick()
                shares = tuple(own / (own + other) for own, other in rates_gbps)
                yield Share(rate, weight, shares, median(map(sum, rates_gbps)))


def _rates_gbps(
    weighted: Weighted | None, gbps: float, weight: float, lasts_s: float, first: bool
) -> tuple[float, float]:
    """The weighted socket's, and the other's. `first`: the weighted socket begins, and is alone at first."""
    with Testbed(star(3, gbps)) as testbed, ExitStack() as stack:
        address = (str(testbed.addresses.data["h2"]), PORT)
        for host in testbed.topology.hosts:
            with testbed.nodes[host].enter():
                for name in ("tcp_rmem", "tcp_wmem"):
                    Path("/proc/sys/net/ipv4", name).write_text(BUFFERS, encoding="ascii")
        with testbed.nodes["h2"].enter():
            listener = stack.enter_context(create_server(address))
        received = {}
        for host in ("h0", "h1") if first else ("h1", "h0"):
            with testbed.nodes[host].enter():
                sender = stack.enter_context(create_connection(address))
            if host == "h0" and weighted is not None:
                sender.setsockopt(IPPROTO_TCP, TCP_CONGESTION, weighted.name.encode())
                weighted.tell(sender.fileno(), weight)
            receiver = stack.enter_context(listener.accept()[0])
            received[host] = stack.enter_context(streaming(sender, receiver))
        time.sleep(lasts_s * SETTLES)
        before = {host: count() for host, count in received.items()}
        time.sleep(lasts_s * (1 - SETTLES))
        own, other = (8e-9 * (received[host]() - before[host]) / (lasts_s * (1 - SETTLES)) for host in ("h0", "h1"))
        return own, other


@contextmanager
def streaming(sender: socket, receiver: socket) -> Iterator[Callable[[], int]]:
    """Sends within the block; gives what has arrived. Nothing is copied on either side: at several Gbit/s the link is
    to be the bottleneck, not the CPU."""
    arrived, ended, nothing = [0], threading.Event(), bytearray(MOST_BYTES)
    pages = os.memfd_create("pages")
    os.truncate(pages, MOST_BYTES)

    def send() -> None:
        with suppress(OSError):
            while not ended.is_set():
                os.sendfile(sender.fileno(), pages, 0, MOST_BYTES)

    def receive() -> None:
        with suppress(OSError):
            while not ended.is_set() and (size := receiver.recv_into(nothing, MOST_BYTES, MSG_TRUNC)):
                arrived[0] += size

    threads = [threading.Thread(target=work, daemon=True) for work in (send, receive)]
    for thread in threads:
        thread.start()
    yield lambda: arrived[0]
    ended.set()
    receiver.shutdown(2)
    for thread in threads:
        thread.join(1)
    os.close(pages)

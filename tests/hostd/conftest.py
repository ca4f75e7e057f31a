"""Two hosts in network namespaces of their own, a job that sends from one to the other, and what the kernel says."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from math import inf
from pathlib import Path

import pytest

from bench.testbed.namespace import Namespace, connect
from hostd.enforce.pacing import TSO_RTT_LOG
from hostd.enforce.socket_options import SO_MAX_PACING_RATE, SO_PRIORITY
from hostd.enforce.transport import TCP_CONGESTION, Transport
from hostd.kernel.devices import read_devices
from hostd.kernel.flow_meter import FlowMeter
from hostd.kernel.netlink import Netlink
from hostd.kernel.pidfd import duplicated_socket
from hostd.kernel.qdisc_tree import read_tree
from hostd.kernel.sockets import DataSocket, ProcessSockets
from paceline.flowcore.model.patterns import FlowId, Role

HERE, THERE = IPv4Interface("10.97.0.1/24"), IPv4Interface("10.97.0.2/24")
HERE6, THERE6 = "fd00:97::1", "fd00:97::2"
PORT = 5001
JOB = str(Path(__file__).with_name("job.py"))
FLOW = FlowId("job", "h0", "h1", Role.RING)


@dataclass
class Job:
    """A sending process."""

    process: "subprocess.Popen[str]"
    meter: FlowMeter = field(default_factory=FlowMeter)

    @property
    def pid(self) -> int:
        return self.process.pid

    def sockets(self, count: int = 1) -> tuple[DataSocket, ...]:
        """Its data sockets, once there are as many."""
        process = ProcessSockets(self.pid)
        wait_until(lambda: (process.look() or True) and len(process.sockets) == count)
        return process.sockets

    def rate_bps(self, sockets: tuple[DataSocket, ...], duration_s: float = 0.4) -> float:
        """What was acknowledged, over a while from now on."""
        before, begun_s = self.meter.read(sockets), time.monotonic()
        time.sleep(duration_s)
        return 8 * (self.meter.read(sockets) - before) / (time.monotonic() - begun_s)

    def comes_to(self, sockets: tuple[DataSocket, ...], low_bps: float, high_bps: float = inf) -> None:
        """Waits for such a rate: what was sent before may still be on its way, and a machine may be busy."""
        wait_until(lambda: low_bps < self.rate_bps(sockets) < high_bps)

    def end(self) -> None:
        with self.process:
            self.process.kill()


@dataclass
class Wire:
    """Two namespaces and the cable between them; processes end with the test."""

    here: Namespace
    there: Namespace
    stack: ExitStack

    def send(self, count: int = 1, address: str = str(THERE.ip), port: int = PORT) -> Job:
        """A job in `here` with as many connections to `there`."""
        process = self._start(self.here, "send", address, str(port), str(count))
        job = Job(process)
        self.stack.callback(job.end)
        assert next_line(process) == "sending"
        return job

    def sink(self, address: str = str(THERE.ip), port: int = PORT) -> "subprocess.Popen[str]":
        process = self._start(self.there, "sink", address, str(port))
        self.stack.callback(Job(process).end)
        assert next_line(process) == "listening"
        return process

    def state(self, sockets: tuple[DataSocket, ...] = ()) -> object:
        """Everything a backend may change in `here`: qdiscs, bundle sizes, sysctl, socket options."""
        with self.here.enter():
            with Netlink() as netlink:
                devices = read_devices(netlink)
                trees = [read_tree(netlink, device.ifindex) for device in devices.values()]
            sysctl = TSO_RTT_LOG.read_text()
        options = []
        for one in sockets:
            with duplicated_socket(one.pid, one.fd, one.cookie) as theirs:
                wanted = (
                    SO_PRIORITY,
                    SO_MAX_PACING_RATE,
                    TCP_CONGESTION,
                    *Transport(min_rto_ms=40.0).where_lossy(False),
                )
                options.append([theirs.getsockopt(*option, 16) for option in wanted])
        return devices, trees, sysctl, options

    def _start(self, namespace: Namespace, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-S", JOB, *arguments]
        return namespace.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with ExitStack() as stack:
        here = stack.enter_context(Namespace("here"))
        there = stack.enter_context(Namespace("there"))
        connect(here, "eth0", there, "eth0", (HERE, THERE))
        for namespace, address in ((here, HERE6), (there, THERE6)):
            index = namespace.index_of("eth0")
            # flags: no duplicate address detection, usable at once
            namespace.netlink.addr("add", index=index, address=address, prefixlen=64, flags=2)
        yield Wire(here, there, stack)


def next_line(process: "subprocess.Popen[str]", limit_s: float = 20.0) -> str:
    """What a process prints next; fails after the limit."""
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], limit_s)
        assert ready, "it says nothing"
        byte = os.read(process.stdout.fileno(), 1)  # nothing is left in Python's buffer, where select would not see it
        if not byte:
            break
        line += byte
    return line.decode().rstrip("\n")


def wait_until(holds: Callable[[], object], limit_s: float = 10.0) -> float:
    """How long it took; fails after the limit."""
    begun_s = time.monotonic()
    while not holds():
        assert time.monotonic() - begun_s < limit_s, "it never came"
        time.sleep(0.005)
    return time.monotonic() - begun_s

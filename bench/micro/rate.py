"""How exactly a backend holds flows to their rates, judged at the receiver.

    sender (a process in its own namespace) ── veth ──▶ receiver (another), which notes what arrives when
       ▲ each flow's rate changes every 60 ms: 400, 100, 800, 200, 600, 50, 900, 300 Mbit/s

    error      of a flow in a slot: |bytes on the wire ÷ (rate × slot) − 1|, from the moment of the change on, so that
               bytes that come late or too early count
    settled    the time after which the new rate lasts for HOLD_NS, or for as long as HOLD_BUNDLES bundles take at it,
               give or take SETTLED_BAND or two bundles

A change that comes more than a quarter of a slot late (the bench had no CPU, or another process held the kernel's one
lock for network configuration) says nothing about rates: its slots are counted and not judged.

The flows walk the staircase a step apart, so that they do not move together. More than four walk it at 4/N of its
height: what is measured is the kernel's clock and not how much a small machine can send. On a faster link the rates are
as many times higher, and bundles as many times larger, up to the kernel's 64 KB.
"""

import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from ipaddress import IPv4Interface
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.micro import rate_peer
from bench.testbed.namespace import Namespace, connect
from hostd.enforce.base import Backend
from hostd.enforce.htb import HtbBackend
from hostd.enforce.pacing import PacingBackend
from hostd.kernel.sockets import ProcessSockets
from hostd.safety.undo_log import UndoLog
from paceline.failure import Failure
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import NS_PER_MS, NS_PER_S, transfer_bytes, transfer_ns

STAIRCASE_BPS = (400e6, 100e6, 800e6, 200e6, 600e6, 50e6, 900e6, 300e6)
FULL_HEIGHT_FLOWS = 4
SLOT_NS = 60 * NS_PER_MS
ROUNDS = 8
HOLD_NS, HOLD_BUNDLES = 5 * NS_PER_MS, 8
SETTLED_BAND = 0.05
LATE_NS = SLOT_NS // 4
_GRID_NS = NS_PER_MS // 4
_HEADER_BYTES = 66  # Ethernet, IP, and TCP with timestamps
_SENDER, _RECEIVER, _PORT = IPv4Interface("10.98.0.1/24"), IPv4Interface("10.98.0.2/24"), 5201
_BUFFERS = {kind: Path(f"/proc/sys/net/ipv4/tcp_{kind}") for kind in ("rmem", "wmem")}
_BUFFER_BYTES = f"4096 {8 << 20} {16 << 20}"  # least, at first, most: to sleep through a slot
_SPIN_NS = 200_000  # before a slot begins: a sleep may end that late

LINK_BPS = 1e9

# What TCP would make of LINK_BPS over a real network. The round trip of a veth is 2 µs, too short for TCP's own rule.
BUNDLE_BYTES, LARGEST_BUNDLE_BYTES = 8192, 65536

BACKENDS: dict[str, Callable[[UndoLog, float], Backend]] = {
    "htb": lambda undo_log, link_bps: HtbBackend(undo_log, lambda device: link_bps),
    "pacing": lambda undo_log, link_bps: PacingBackend(undo_log, small_tso_bursts=True),
}


class Setup(NamedTuple):
    flows: int
    rounds: int = ROUNDS
    congestion_control: str = "cubic"
    link_gbps: float = 1.0
    sockets: int = 1  # of a flow

    @property
    def bundle_bytes(self) -> int:
        return min(round(self.link_gbps * BUNDLE_BYTES), LARGEST_BUNDLE_BYTES)


class Step(NamedTuple):
    """One flow in one slot."""

    start_ns: int
    end_ns: int
    rate_bps: float


class Curve(NamedTuple):
    """What has arrived of one flow: times, and bytes on the wire up to each."""

    at_ns: list[int]
    total_bytes: list[int]

    def between(self, start_ns: int, end_ns: int) -> int:
        first, last = bisect_left(self.at_ns, start_ns), bisect_left(self.at_ns, end_ns)
        return (self.total_bytes[last - 1] if last else 0) - (self.total_bytes[first - 1] if first else 0)


def measure_rate(backend: str, setup: Setup) -> dict[str, Any]:
    """Walks the staircase and judges; needs the right to make networks (bench/testbed/rootless.py)."""
    steps, curves = walk(lambda undo_log: BACKENDS[backend](undo_log, setup.link_gbps * LINK_BPS), setup)
    walked = [(step, curve) for own, curve in zip(steps, curves, strict=True) for step in own]
    judged = [(step, curve) for step, curve in walked if abs(step.end_ns - step.start_ns - SLOT_NS) < LATE_NS]
    if not judged:
        raise Failure("this machine is too busy: no change came in time")
    errors = [error(step, curve) for step, curve in judged]
    settled = [settle_ms(step, curve, setup.bundle_bytes) for step, curve in judged]
    return {
        "backend": backend,
        "flows": setup.flows,
        "sockets": setup.sockets,
        "link_gbps": setup.link_gbps,
        "congestion_control": setup.congestion_control,
        "steps": len(judged),
        "late_steps": len(walked) - len(judged),
        "median_error_percent": 100 * median(errors),
        "p95_error_percent": 100 * _percentile(errors, 0.95),
        "settle_ms_p95": _percentile(settled, 0.95),
    }


def error(step: Step, curve: Curve) -> float:
    asked_bytes = transfer_bytes(step.rate_bps, step.end_ns - step.start_ns)
    return abs(curve.between(step.start_ns, step.end_ns) / asked_bytes - 1)


def settle_ms(step: Step, curve: Curve, bundle_bytes: int = BUNDLE_BYTES) -> float:
    """From the change to the new rate; the whole slot if the rate never settles."""
    hold_ns = max(HOLD_NS, transfer_ns(HOLD_BUNDLES * bundle_bytes, step.rate_bps))
    asked_bytes = transfer_bytes(step.rate_bps, hold_ns)
    tolerance_bytes = max(SETTLED_BAND * asked_bytes, 2 * bundle_bytes)
    for start_ns in range(step.start_ns, step.end_ns - hold_ns, _GRID_NS):
        if abs(curve.between(start_ns, start_ns + hold_ns) - asked_bytes) <= tolerance_bytes:
            return (start_ns - step.start_ns) / NS_PER_MS
    return (step.end_ns - step.start_ns) / NS_PER_MS


def walk(make_backend: Callable[[UndoLog], Backend], setup: Setup) -> tuple[list[list[Step]], list[Curve]]:
    """Each flow's steps, without a first round to warm up, and its arrivals."""
    with ExitStack() as stack:
        here, there = stack.enter_context(Namespace("sender")), stack.enter_context(Namespace("receiver"))
        connect(here, "eth0", there, "eth0", (_SENDER, _RECEIVER))
        here.netlink.link("set", index=here.index_of("eth0"), gso_max_size=setup.bundle_bytes)
        for namespace in (here, there):
            with namespace.enter():
                _BUFFERS["rmem"].write_text(_BUFFER_BYTES)
                _BUFFERS["wmem"].write_text(_BUFFER_BYTES)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        receiver = _peer(there, "receive", str(_PORT), "eth0", str(scratch / "records"))
        stack.callback(_end, receiver)
        _read_line(receiver)
        connections = str(setup.flows * setup.sockets)
        sender = _peer(here, "send", str(_RECEIVER.ip), str(_PORT), connections, setup.congestion_control)
        stack.callback(_end, sender)
        ports = [int(port) for port in _read_line(sender).split()]
        with here.enter():
            backend = make_backend(UndoLog(scratch / "lease.json"))
            try:
                steps = _climb(backend, sender.pid, setup)
            finally:
                backend.close()
        _end(sender)
        assert receiver.stdin is not None
        receiver.stdin.close()
        receiver.wait(timeout=10)
        return steps, _curves((scratch / "records").read_bytes(), ports, setup.sockets)


def _climb(backend: Backend, pid: int, setup: Setup) -> list[list[Step]]:
    flows, names = setup.flows, _attach(backend, pid, setup)
    height = min(1.0, FULL_HEIGHT_FLOWS / flows) * setup.link_gbps
    steps: list[list[Step]] = [[] for _ in names]
    in_force: list[float] = []
    begun_ns = time.monotonic_ns()
    changed_ns = 0
    for slot in range((1 + setup.rounds) * len(STAIRCASE_BPS) + 1):
        _wait_until(begun_ns + slot * SLOT_NS)
        rates = [STAIRCASE_BPS[(slot + first) % len(STAIRCASE_BPS)] * height for first in range(flows)]
        limits = [Limit(flow, rate, rate) for flow, rate in zip(names, rates, strict=True)]
        if troubles := backend.apply(limits):
            raise Failure(f"{backend.name}: {troubles[0].reason}")
        # In force when the call returns; what it takes is the daemon's time, not the kernel's error.
        before_ns, changed_ns = changed_ns, time.time_ns()
        if slot > len(STAIRCASE_BPS):  # a round to warm up
            for own, rate in zip(steps, in_force, strict=True):
                own.append(Step(before_ns, changed_ns, rate))
        in_force = rates
    return steps


def _attach(backend: Backend, pid: int, setup: Setup) -> list[FlowId]:
    process, wanted = ProcessSockets(pid), setup.flows * setup.sockets
    deadline_ns = time.monotonic_ns() + 5 * NS_PER_S
    while len(process.sockets) < wanted:
        if time.monotonic_ns() > deadline_ns:
            raise Failure(f"only {len(process.sockets)} of {wanted} connections carry data")
        process.look()
        time.sleep(0.01)
    names = [FlowId(f"job{index}", "sender", "receiver", Role.RING) for index in range(setup.flows)]
    found = sorted(process.sockets, key=lambda one: one.fd)
    for index, name in enumerate(names):
        if troubles := backend.attach(name, found[index * setup.sockets : (index + 1) * setup.sockets]):
            raise Failure(f"{backend.name}: {troubles[0].reason}")
    return names


def _curves(records: bytes, ports: Sequence[int], sockets: int) -> list[Curve]:
    """Of each flow, over its sockets."""
    curves = [Curve([], []) for _ in ports[::sockets]]
    of_port = {port: curves[index // sockets] for index, port in enumerate(ports)}
    for port, segments, payload_bytes, at_ns in rate_peer.RECORD.iter_unpack(records):
        if (curve := of_port.get(port)) is not None:
            before = curve.total_bytes[-1] if curve.total_bytes else 0
            curve.total_bytes.append(before + payload_bytes + segments * _HEADER_BYTES)
            curve.at_ns.append(at_ns)
    return curves


def _peer(namespace: Namespace, *arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-S", rate_peer.__file__, *arguments]
    return namespace.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _read_line(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def _end(process: "subprocess.Popen[bytes]") -> None:
    with process:
        process.kill()


def _wait_until(at_ns: int) -> None:
    time.sleep(max(0, at_ns - _SPIN_NS - time.monotonic_ns()) / NS_PER_S)
    while time.monotonic_ns() < at_ns:
        pass


def _percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]

"""Negotiation over real gRPC with real switchd processes, at a size one machine can drive.

One process stands for all hosts. Each slot, at the phase its switch gave it, a host sends the plans of its flows in
one message, and when the answer has come plans them anew from it (Algorithm 1): that is the decision, and from the
message to it the latency. A slot in which it has not come when the next message is due is missed.

So that the switches are what is measured, hosts keep their messages in protobuf form and change only the numbers.
"""

import asyncio
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np
import psutil

from flowcore.allocator import allocate
from flowcore.messages import Bid, Claim, Report
from flowcore.patterns import FlowId, Role
from flowcore.slots import SlotClock
from flowcore.topology import Topology, clos, star
from flowcore.units import ns_from_ms
from service.shared_clock import SharedClock
from wire import control_pb2 as pb
from wire.calls import PROTOCOL, open_channel, path
from wire.translate import report_to_wire

LINK_GBPS = 10.0
UPLINK_GBPS = 100.0
WORKERS_PER_JOB = 4
HORIZON = 10
WARM_UP_SLOTS = 10


@dataclass(frozen=True, slots=True)
class Setup:
    hosts: int
    switches: int
    slots: int
    flows: int = 10  # per host
    slot_ms: float = 60.0
    policy: str = "mlcc"
    seed: int = 1
    together: bool = False  # all hosts at the slot's beginning, to see what spreading is for

    def topology(self) -> Topology:
        if self.switches == 1:
            return star(self.hosts, LINK_GBPS)
        tors = self.switches - 1
        return clos(self.hosts // tors, tors, 1, (LINK_GBPS, UPLINK_GBPS))


@dataclass(slots=True)
class Tally:
    latencies_ms: list[float] = field(default_factory=list)
    missed: int = 0
    counted: int = 0
    refused: int = 0
    answered: int = 0
    counting: bool = False


@dataclass(slots=True)
class LoadHost:
    """One host of the load: a ready-made report, a stream, and the answer it waits for."""

    name: str
    message: pb.HostMessage
    flows: int
    phase_ns: int = 0
    plans: list[float] = field(default_factory=list)
    answered: asyncio.Event = field(default_factory=asyncio.Event)


def measure(setup: Setup, progress: Callable[[int, int], None] = lambda done, all: None) -> dict[str, object]:
    topology = setup.topology()
    with tempfile.TemporaryDirectory() as place, running_switches(topology, setup, Path(place)) as (
        addresses,
        processes,
    ):
        return asyncio.run(_drive(setup, topology, addresses, processes, progress))


# ---- Switches ----


@contextmanager
def running_switches(
    topology: Topology, setup: Setup, place: Path
) -> Iterator[tuple[dict[str, str], dict[str, subprocess.Popen[bytes]]]]:
    """One switchd process per switch, all on loopback; ended by pid."""
    ports = free_ports(len(topology.switches))
    addresses = {switch: f"127.0.0.1:{port}" for switch, port in zip(topology.switches, ports, strict=True)}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for switch in reversed(topology.switches):
            config = place / f"{switch}.toml"
            config.write_text(switch_config(switch, setup, topology, addresses))
            command = [sys.executable, "-m", "switchd", "--config", str(config), "--log-level", "ERROR"]
            processes[switch] = subprocess.Popen(command, start_new_session=True)
        yield addresses, processes
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        for process in processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def switch_config(switch: str, setup: Setup, topology: Topology, addresses: dict[str, str]) -> str:
    lines = [
        f'name = "{switch}"',
        f'listen = "{addresses[switch]}"',
        f'policy = "{setup.policy}"',
        f"max_flows_per_host = {max(512, 4 * setup.flows)}",
        "[slots]",
        f"length_ms = {setup.slot_ms}",
        f"horizon = {HORIZON}",
        "[topology]",
        f'kind = "{topology.kind}"',
    ]
    if topology.kind == "star":
        lines += [f"hosts = {setup.hosts}", f"link_gbps = {LINK_GBPS}"]
    else:
        tors = setup.switches - 1
        lines += [f"servers_per_tor = {setup.hosts // tors}", f"tors = {tors}", "spines = 1"]
        lines += [f"link_gbps = [{LINK_GBPS}, {UPLINK_GBPS}]"]
    lines += ["[parents]"] + [f'{parent} = "{addresses[parent]}"' for parent in topology.parents.get(switch, ())]
    return "\n".join(lines) + "\n"


def free_ports(count: int) -> list[int]:
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()


# ---- Hosts ----


def load_hosts(setup: Setup, topology: Topology) -> list[LoadHost]:
    """Every host in as many ring jobs as it has flows, each job over a few hosts anywhere."""
    draws = random.Random(setup.seed)
    flows: dict[str, list[FlowId]] = {host: [] for host in topology.hosts}
    members = min(WORKERS_PER_JOB, setup.hosts)
    number = 0
    for _ in range(setup.flows):
        order = list(topology.hosts)
        draws.shuffle(order)
        for start in range(0, len(order), members):
            ring = order[start : start + members]
            for source, target in zip(ring, ring[1:] + ring[:1], strict=True):
                if source != target:
                    flows[source].append(FlowId(f"job{number}", source, target, Role.RING))
            number += 1
    return [_load_host(host, of_host, topology, draws) for host, of_host in flows.items()]


def _load_host(host: str, flows: list[FlowId], topology: Topology, draws: random.Random) -> LoadHost:
    claims = tuple(
        Claim(
            flow,
            topology.path(flow.source, flow.target, str(flow)),
            size_bytes=draws.uniform(20e6, 200e6),
            bid=Bid(draws.uniform(1.0, 3.0), 200e6, 100e6),
            sent_bytes=0.0,
            planned_bytes=0.0,
            preds=(),
            followers=(),
            plan_bps=(0.0,) * HORIZON,
        )
        for flow in flows
    )
    return LoadHost(host, pb.HostMessage(report=report_to_wire(Report(host, 0, 0, claims))), len(flows))


async def _drive(
    setup: Setup,
    topology: Topology,
    addresses: dict[str, str],
    processes: dict[str, subprocess.Popen[bytes]],
    progress: Callable[[int, int], None],
) -> dict[str, object]:
    clock, tally = SharedClock(), Tally()
    slots = SlotClock(ns_from_ms(setup.slot_ms), HORIZON)
    hosts = load_hosts(setup, topology)
    channels = {tor: open_channel(addresses[tor], None) for tor in set(topology.switch_of.values())}
    tasks = []
    try:
        for channel in channels.values():
            await asyncio.wait_for(channel.channel_ready(), 30)
        await asyncio.sleep(0.5)  # for the switches to find each other
        begin = slots.index(clock.own_ns()) + 5
        watched = [psutil.Process(process.pid) for process in processes.values()]
        drivers = [
            asyncio.create_task(
                _converse(setup, host, channels[topology.switch_of[host.name]], clock, slots, begin, tally)
            )
            for host in hosts
        ]
        tasks += drivers
        for slot in range(begin, begin + WARM_UP_SLOTS):
            await _until(slots.end_ns(slot), clock)
        cpu_s, own_s, lo_bytes, started = _cpu(watched), time.process_time(), _loopback_bytes(), time.perf_counter()
        tally.counting = True
        for slot in range(setup.slots):
            await _until(slots.end_ns(begin + WARM_UP_SLOTS + slot), clock)
            progress(slot + 1, setup.slots)
        wall_s = time.perf_counter() - started
        cpu_s = [after - before for after, before in zip(_cpu(watched), cpu_s, strict=True)]
        own_s, lo_bytes = time.process_time() - own_s, _loopback_bytes() - lo_bytes
        await asyncio.wait_for(asyncio.gather(*drivers), 30)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in channels.values():
            await channel.close()
    p50, p90, p99 = np.percentile(tally.latencies_ms or [float("nan")], [50, 90, 99])
    by_switch = dict(zip(processes, (round(100 * spent / wall_s, 2) for spent in cpu_s), strict=True))
    return {
        "hosts": setup.hosts,
        "switches": setup.switches,
        "flows_per_host": setup.flows,
        "slot_ms": setup.slot_ms,
        "slots": setup.slots,
        "policy": setup.policy,
        "seed": setup.seed,
        "phases": "together" if setup.together else "spread",
        "p50_ms": round(float(p50), 3),
        "p90_ms": round(float(p90), 3),
        "p99_ms": round(float(p99), 3),
        "negotiations": tally.counted,
        "missed_slots": tally.missed,
        "plans_refused": tally.refused,
        "plans_answered": tally.answered,
        "switch_cpu_percent": round(sum(by_switch.values()), 2),
        "switch_cpu_percent_by_switch": by_switch,
        "switch_cpu_us_per_negotiation": round(1e6 * sum(cpu_s) / max(1, tally.counted), 1),
        "host_cpu_percent": round(100 * own_s / wall_s / setup.hosts, 3),
        "control_mbps": round(8 * lo_bytes / wall_s / 1e6, 3),
        "control_bytes_per_negotiation": round(lo_bytes / max(1, tally.counted)),
    }


async def _converse(
    setup: Setup,
    host: LoadHost,
    channel: grpc.aio.Channel,
    clock: SharedClock,
    slots: SlotClock,
    begin: int,
    tally: Tally,
) -> None:
    call = channel.stream_stream(path("Negotiate"))()
    hello = pb.Hello(name=host.name, protocol=PROTOCOL)
    await call.write(pb.HostMessage(sent_ns=clock.own_ns(), hello=hello).SerializeToString())
    welcome = pb.SwitchMessage.FromString(await call.read()).welcome
    host.phase_ns = 0 if setup.together else welcome.phase_ns
    reading = asyncio.create_task(_read_answers(host, call, tally))
    report = host.message.report
    try:
        for number in range(WARM_UP_SLOTS + setup.slots):
            due_ns = slots.start_ns(begin + number) + host.phase_ns
            await _until(due_ns, clock)
            counting = tally.counting
            host.message.sent_ns = clock.own_ns()
            report.number = number
            report.first_slot = slots.index(host.message.sent_ns)
            if host.plans:
                report.claims.plan_bps[:] = host.plans
            host.answered.clear()
            began = time.perf_counter()
            await call.write(host.message.SerializeToString())
            deadline_s = (due_ns + slots.length_ns - clock.own_ns()) / 1e9
            try:
                await asyncio.wait_for(host.answered.wait(), max(0.0, deadline_s))
            except TimeoutError:
                tally.missed += counting
            if counting:
                tally.counted += 1
                if host.answered.is_set():
                    tally.latencies_ms.append(1e3 * (time.perf_counter() - began))
    finally:
        reading.cancel()
        call.cancel()


async def _read_answers(host: LoadHost, call: grpc.aio.StreamStreamCall, tally: Tally) -> None:
    number_of = host.message.report
    while (data := await call.read()) is not grpc.aio.EOF:
        feedback = pb.SwitchMessage.FromString(data).feedback
        # Flows whose path another switch keeps a part of may be answered after the others.
        if feedback.answers == number_of.number:
            if len(feedback.flow) == host.flows:
                host.plans = _decide(host, feedback)
                tally.refused += host.flows - sum(feedback.accepted)
                tally.answered += host.flows
            host.answered.set()


def _decide(host: LoadHost, feedback: pb.Feedback) -> list[float]:
    """Algorithm 1 for each flow in what those before it left; a quarter of the NIC each slot is background."""
    claims, slot_s = host.message.report.claims, 0.06
    order = {flow: index for index, flow in enumerate(feedback.flow)}
    plans: list[float] = []
    for flow, size_bytes in zip(claims.flow, claims.size_bytes, strict=True):
        at = order[flow] * HORIZON
        room = [rate_bps / host.flows * slot_s / 8 for rate_bps in feedback.available_bps[at : at + HORIZON]]
        schedule = allocate(size_bytes, room, feedback.load[at : at + HORIZON])
        plans += (volume_bytes * 8 / slot_s for volume_bytes in schedule.volume_bytes)
    return plans


async def _until(when_ns: int, clock: SharedClock) -> None:
    await asyncio.sleep(max(0.0, (when_ns - clock.own_ns()) / 1e9))


def _cpu(processes: list[psutil.Process]) -> list[float]:
    return [sum(process.cpu_times()[:2]) for process in processes]


def _loopback_bytes() -> int:
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent

"""Negotiation over real gRPC with real switchd processes, at a size one machine can drive.

One process stands for all hosts, each with a connection of its own. Once a slot, at the phase its switch gave it, a
host sends the plans of its flows in one message. The latency is that of the hosts that decide (load_hosts.py): from
sending the message, which asks and proposes, to having planned anew from the answer. A slot is missed, by any host,
when the answer has not come by the time the next message is due.

Beside it, once a slot, a message of the same size makes a bare gRPC round trip (echo.py). Control bandwidth is what
crosses the loopback interface while nothing else uses it, TCP and IP headers and this round trip included.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np
import psutil
import uvloop

from bench.echo import measure_echo, running_echo
from bench.load_hosts import LoadHost, load_hosts
from bench.switch_processes import loopback_addresses, running_switches
from flowcore.slots import SlotClock
from flowcore.topology import Topology, clos, star
from flowcore.units import ns_from_ms
from service.shared_clock import SharedClock
from wire import control_pb2 as pb
from wire.calls import PROTOCOL, open_channel, path

LINK_GBPS = 10.0
UPLINK_GBPS = 100.0
HORIZON = 10
WARM_UP_SLOTS = 10
START_TIMEOUT_S = 60.0
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Setup:
    hosts: int
    switches: int  # one, or ToRs and a spine
    slots: int
    flows: int = 10  # per host
    slot_ms: float = 60.0
    policy: str = "mlcc"
    across: float = 0.25  # of the jobs, those with workers in several racks; placements keep most in one
    seed: int = 1
    together: bool = False  # all hosts at the slot's beginning, to see what spreading is for

    def __post_init__(self) -> None:
        if self.hosts < 2:
            raise ValueError(f"found {self.hosts} host, expected 2 or more: flows go from one to another")
        if self.switches == 2:
            raise ValueError("found 2 switches, expected 1, or 3 and more: ToRs and a spine")
        if self.hosts % self.tors:
            raise ValueError(f"found {self.hosts} hosts under {self.tors} ToRs, expected equally many under each")

    @property
    def tors(self) -> int:
        return max(1, self.switches - 1)

    def topology(self) -> Topology:
        if self.switches == 1:
            return star(self.hosts, LINK_GBPS)
        return clos(self.hosts // self.tors, self.tors, 1, (LINK_GBPS, UPLINK_GBPS))

    def config(self, switch: str, topology: Topology, addresses: dict[str, str]) -> str:
        lines = [
            f'name = "{switch}"',
            f'listen = "{addresses[switch]}"',
            f'policy = "{self.policy}"',
            f"max_flows_per_host = {max(512, 4 * self.flows)}",
            f"slots = {{length_ms = {self.slot_ms}, horizon = {HORIZON}}}",
            "[topology]",
            f'kind = "{topology.kind}"',
        ]
        if topology.kind == "star":
            lines += [f"hosts = {self.hosts}", f"link_gbps = {LINK_GBPS}"]
        else:
            lines += [f"servers_per_tor = {self.hosts // self.tors}", f"tors = {self.tors}", "spines = 1"]
            lines += [f"link_gbps = [{LINK_GBPS}, {UPLINK_GBPS}]"]
        above = topology.parents.get(switch, ())
        return "\n".join([*lines, "[parents]", *(f'{parent} = "{addresses[parent]}"' for parent in above)])


@dataclass(slots=True)
class Tally:
    latencies_ms: list[float] = field(default_factory=list)
    echoes_ms: list[float] = field(default_factory=list)  # bare gRPC beside it
    negotiations: int = 0
    missed: int = 0
    refused: int = 0
    answered: int = 0


class StreamLost(Exception):
    """A switch hung up on a host; str() is the line people get."""


Progress = Callable[[int, int], None]


def measure(setup: Setup, progress: Progress = lambda done, total: None) -> dict[str, object]:
    topology = setup.topology()
    addresses = loopback_addresses(topology)
    configs = {switch: setup.config(switch, topology, addresses) for switch in topology.switches}
    with (
        tempfile.TemporaryDirectory() as place,
        running_switches(topology, configs, Path(place)) as processes,
        running_echo() as echo,
    ):
        return uvloop.run(_drive(setup, topology, addresses, processes, echo, progress))


async def _drive(
    setup: Setup,
    topology: Topology,
    addresses: dict[str, str],
    processes: dict[str, subprocess.Popen[bytes]],
    echo: str,
    progress: Progress,
) -> dict[str, object]:
    tally, clock = Tally(), SharedClock()
    slots = SlotClock(ns_from_ms(setup.slot_ms), HORIZON)
    hosts = load_hosts(topology, setup.flows, setup.across, HORIZON, setup.seed)
    channels = [open_channel(addresses[topology.switch_of[host.name]], None) for host in hosts]
    conversations = [
        Conversation(setup, host, channel, slots, clock, tally) for host, channel in zip(hosts, channels, strict=True)
    ]
    tasks: list[asyncio.Task[None]] = []
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            await asyncio.gather(*(one.open() for one in conversations))
        begin = slots.index(clock.own_ns()) + 2
        tasks = [asyncio.create_task(one.run(begin, setup.slots)) for one in conversations]
        await _until(slots.start_ns(begin + WARM_UP_SLOTS), clock)
        sample = hosts[0].message(0, begin, 0)
        tasks.append(asyncio.create_task(measure_echo(echo, sample, setup.slot_ms / 1e3, tally.echoes_ms)))
        watched = {switch: psutil.Process(process.pid) for switch, process in processes.items()}
        before, own_s, lo_bytes = _cpu(watched), time.process_time(), _loopback_bytes()
        started_s = time.perf_counter()
        for slot in range(setup.slots):
            await _until(slots.start_ns(begin + WARM_UP_SLOTS + slot + 1), clock)
            progress(slot + 1, setup.slots)
        wall_s = time.perf_counter() - started_s
        cpu_s = {switch: spent - before[switch] for switch, spent in _cpu(watched).items()}
        own_s, lo_bytes = time.process_time() - own_s, _loopback_bytes() - lo_bytes
        await asyncio.gather(*tasks[: len(conversations)])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in conversations:
            one.close()
        for channel in channels:
            await channel.close()
    return _result(setup, tally, cpu_s, own_s, lo_bytes, wall_s)


class Conversation:
    """One host's stream, from Hello to the last slot."""

    def __init__(
        self,
        setup: Setup,
        host: LoadHost,
        channel: grpc.aio.Channel,
        slots: SlotClock,
        clock: SharedClock,
        tally: Tally,
    ) -> None:
        self._host, self._slots, self._clock, self._tally = host, slots, clock, tally
        self._together = setup.together
        self._call = channel.stream_stream(path("Negotiate"))(wait_for_ready=True)
        self._reading: asyncio.Task[None] | None = None
        self._number = 0
        self._sent_s = 0.0
        self._answered = True
        self._counted = False  # whether the message that waits for its answer is one of those measured

    async def open(self) -> None:
        hello = pb.Hello(name=self._host.name, protocol=PROTOCOL)
        await self._call.write(pb.HostMessage(sent_ns=self._clock.own_ns(), hello=hello).SerializeToString())
        welcome = pb.SwitchMessage.FromString(await self._call.read()).welcome
        self._phase_ns = 0 if self._together else welcome.phase_ns
        self._reading = asyncio.create_task(self._read())

    async def run(self, begin: int, count: int) -> None:
        """Warms up from slot `begin` on, then is measured for `count` slots."""
        first, end = begin + WARM_UP_SLOTS, begin + WARM_UP_SLOTS + count
        for slot in range(begin, end + 1):
            await _until(self._slots.start_ns(slot) + self._phase_ns, self._clock)
            if self._counted and not self._answered:
                self._tally.missed += 1
            if slot < end:
                await self._send(counted=slot >= first)

    async def _send(self, counted: bool) -> None:
        now_ns = self._clock.own_ns()
        self._number += 1
        self._answered, self._counted = False, counted
        self._tally.negotiations += self._counted
        self._sent_s = time.perf_counter()
        try:
            await self._call.write(self._host.message(self._number, self._slots.index(now_ns), now_ns))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            reason = f"{(await self._call.code()).name}, {await self._call.details()}"
            raise StreamLost(f"{self._host.name} lost its stream: {reason}") from None

    async def _read(self) -> None:
        host, tally = self._host, self._tally
        slot_s = self._slots.length_ns / 1e9
        while (data := await self._call.read()) is not grpc.aio.EOF:
            feedback = pb.SwitchMessage.FromString(data).feedback
            if feedback.answers != self._number or self._answered:
                continue  # a push, or the answer to a slot that was missed
            self._answered = True
            if host.decides:
                host.decide(feedback, HORIZON, slot_s)
            if self._counted:
                tally.answered += len(feedback.flow)
                tally.refused += len(feedback.flow) - sum(feedback.accepted)
                if host.decides:
                    tally.latencies_ms.append(1e3 * (time.perf_counter() - self._sent_s))

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._call.cancel()


def _result(
    setup: Setup, tally: Tally, cpu_s: dict[str, float], own_s: float, lo_bytes: int, wall_s: float
) -> dict[str, object]:
    negotiations = max(1, tally.negotiations)
    spine_s = cpu_s.get("spine0", 0.0)
    return {
        "hosts": setup.hosts,
        "switches": setup.switches,
        "flows_per_host": setup.flows,
        "across": setup.across if setup.switches > 1 else 0.0,
        "slot_ms": setup.slot_ms,
        "slots": setup.slots,
        "policy": setup.policy,
        "seed": setup.seed,
        "phases": "together" if setup.together else "spread",
        **_percentiles("", tally.latencies_ms),
        **_percentiles("echo_", tally.echoes_ms),
        "negotiations": tally.negotiations,
        "missed_slots": tally.missed,
        "plans_refused": tally.refused,
        "plans_answered": tally.answered,
        "switch_cpu_percent": round(100 * sum(cpu_s.values()) / wall_s, 2),
        "switch_cpu_percent_by_switch": {switch: round(100 * spent / wall_s, 2) for switch, spent in cpu_s.items()},
        "switch_cpu_us_per_negotiation": round(1e6 * sum(cpu_s.values()) / negotiations, 1),
        "tor_cpu_us_per_negotiation": round(1e6 * (sum(cpu_s.values()) - spine_s) / negotiations, 1),
        "spine_cpu_us_per_negotiation": round(1e6 * spine_s / negotiations, 1),
        "host_cpu_percent": round(100 * own_s / wall_s / setup.hosts, 3),
        "generator_cpu_percent": round(100 * own_s / wall_s, 1),
        "control_mbps": round(8 * lo_bytes / wall_s / 1e6, 3),
        "control_bytes_per_negotiation": round(lo_bytes / negotiations),
    }


def _percentiles(prefix: str, latencies_ms: list[float]) -> dict[str, float | None]:
    """None: no host that decides was ever answered in time."""
    values = np.percentile(latencies_ms, PERCENTILES).tolist() if latencies_ms else [None] * len(PERCENTILES)
    return {
        f"{prefix}p{percent}_ms": None if value is None else round(value, 3)
        for percent, value in zip(PERCENTILES, values, strict=True)
    }


async def _until(when_ns: int, clock: SharedClock) -> None:
    await asyncio.sleep(max(0.0, (when_ns - clock.own_ns()) / 1e9))


def _cpu(processes: dict[str, psutil.Process]) -> dict[str, float]:
    return {switch: sum(process.cpu_times()[:2]) for switch, process in processes.items()}


def _loopback_bytes() -> int:
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent

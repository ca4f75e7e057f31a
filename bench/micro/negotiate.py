"""Negotiation over real gRPC with real switchd processes, at a size one machine can drive.

One process stands for all hosts, each with a connection of its own. Once a slot, at the phase its switch gave it, a
host sends the plans of its flows in one message. The latency is that of the hosts that decide (load_hosts.py), which
use gRPC as hostd does: from sending the message, which asks and proposes, to having planned anew from the answer,
without putting the next message together. The messages of the other hosts are put on the wire by hand (raw_stream.py).
A host misses a slot when the answer has not come by the time its next message is due. A missed slot of a host that
decides is in the percentiles with the time until then, at least the length of a slot.

Beside it, once a slot, at a phase between those of two hosts, a message of the same size makes a bare gRPC round trip
(echo.py). Control bandwidth is what crosses the loopback interface while nothing else uses it, TCP and IP headers and
this round trip included. And beside both a process on each core watches for stalls (stalls.py): negotiations during
which a core stood still are counted, and counted apart.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import uvloop

from bench.micro.conversation import Conversation, Tally, until
from bench.micro.echo import measure_echo, quiet_phase_ns, running_echo
from bench.micro.load_hosts import load_hosts
from bench.micro.switch_processes import loopback_addresses, running_switches
from bench.stalls import Stalls, watching_stalls
from paceline.failure import Failure
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology, clos, star
from paceline.flowcore.model.units import ns_from_ms
from paceline.service.shared_clock import SharedClock

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


class Spent(NamedTuple):
    """During the measurement."""

    cpu_s: dict[str, float]  # by switch
    own_s: float  # the generator's CPU
    lo_bytes: int
    wall_s: float


Progress = Callable[[int, int], None]


def measure(setup: Setup, progress: Progress = lambda done, total: None) -> dict[str, object]:
    topology = setup.topology()
    addresses = loopback_addresses(topology)
    configs = {switch: setup.config(switch, topology, addresses) for switch in topology.switches}
    with (
        tempfile.TemporaryDirectory() as place,
        running_switches(topology, configs, Path(place)) as processes,
        running_echo() as echo,
        watching_stalls() as stalls,
    ):
        tally, spent = uvloop.run(_drive(setup, topology, addresses, processes, echo, progress))
    return _result(setup, tally, spent, stalls)


async def _drive(
    setup: Setup,
    topology: Topology,
    addresses: dict[str, str],
    processes: dict[str, subprocess.Popen[bytes]],
    echo: str,
    progress: Progress,
) -> tuple[Tally, Spent]:
    tally, clock = Tally(), SharedClock()
    slots = SlotClock(ns_from_ms(setup.slot_ms), HORIZON)
    hosts = load_hosts(topology, setup.flows, setup.across, HORIZON, setup.seed)
    conversations = [Conversation(host, slots, clock, tally, together=setup.together) for host in hosts]
    tasks: list[asyncio.Task[None]] = []
    try:
        homes = [addresses[topology.switch_of[host.name]] for host in hosts]
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.gather(*map(Conversation.open, conversations, homes))
        except TimeoutError:
            raise Failure(f"the switches did not take all hosts in within {START_TIMEOUT_S:g} s") from None
        begin = slots.index(clock.own_ns()) + 2
        tasks = [asyncio.create_task(one.run(begin, begin + WARM_UP_SLOTS, setup.slots)) for one in conversations]
        await until(slots.start_ns(begin + WARM_UP_SLOTS), clock)
        sample = hosts[0].message(0, begin, 0)
        phase_ns = quiet_phase_ns((one.phase_ns for one in conversations), slots.length_ns)
        tasks.append(asyncio.create_task(measure_echo(echo, sample, slots, phase_ns, clock, tally.echoes_ms)))
        watched = {switch: psutil.Process(process.pid) for switch, process in processes.items()}
        before, own_s, lo_bytes = _cpu(watched), time.process_time(), _loopback_bytes()
        started_s = time.perf_counter()
        for slot in range(setup.slots):
            await until(slots.start_ns(begin + WARM_UP_SLOTS + slot + 1), clock)
            progress(slot + 1, setup.slots)
        wall_s = time.perf_counter() - started_s
        cpu_s = {switch: spent - before[switch] for switch, spent in _cpu(watched).items()}
        own_s, lo_bytes = time.process_time() - own_s, _loopback_bytes() - lo_bytes
        await asyncio.gather(*tasks[: len(conversations)])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in conversations))
    return tally, Spent(cpu_s, own_s, lo_bytes, wall_s)


def _result(setup: Setup, tally: Tally, spent: Spent, stalls: Stalls) -> dict[str, object]:
    negotiations = max(1, tally.negotiations)
    cpu_s, own_s, lo_bytes, wall_s = spent
    spine_s = cpu_s.get("spine0", 0.0)
    reliable = stalls.reliable  # otherwise the machine's stalls look like those of our load
    undisturbed_s = [span for span in tally.decided_s if reliable and not stalls.during(*span)]
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
        **_percentiles("", _lengths_ms(tally.decided_s)),
        **_percentiles("undisturbed_", _lengths_ms(undisturbed_s)),
        **_percentiles("echo_", tally.echoes_ms),
        "negotiations": tally.negotiations,
        "missed_slots": len(tally.missed_s),
        "missed_outside_stalls": sum(not stalls.during(*span) for span in tally.missed_s) if reliable else None,
        "machine_stall_p99_ms": round(stalls.late_p99_ms, 3) if reliable else None,
        "machine_stalls": len(stalls.spans_s) if reliable else None,
        "machine_stalled_percent": round(stalls.percent, 2) if reliable else None,
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


def _lengths_ms(spans_s: list[tuple[float, float]]) -> list[float]:
    return [1e3 * (end_s - begin_s) for begin_s, end_s in spans_s]


def _percentiles(prefix: str, latencies_ms: list[float]) -> dict[str, float | None]:
    """None: nothing was measured, as when a core stood still in every slot, or stalls could not be watched."""
    values = np.percentile(latencies_ms, PERCENTILES).tolist() if latencies_ms else [None] * len(PERCENTILES)
    return {
        f"{prefix}p{percent}_ms": None if value is None else round(value, 3)
        for percent, value in zip(PERCENTILES, values, strict=True)
    }


def _cpu(processes: dict[str, psutil.Process]) -> dict[str, float]:
    return {switch: sum(process.cpu_times()[:2]) for switch, process in processes.items()}


def _loopback_bytes() -> int:
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)

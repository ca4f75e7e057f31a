"""switchd processes on loopback, one per switch of a topology; each ended by its own pid."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.child_process import start_child
from paceline.flowcore.model.topology import Topology


@contextmanager
def running_switches(
    topology: Topology, configs: Mapping[str, str], place: Path
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Started from the top down, each with its configuration, which is written to `place`."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for switch in reversed(topology.switches):
            config = place / f"{switch}.toml"
            config.write_text(configs[switch])
            command = [sys.executable, "-m", "switchd", "--config", str(config), "--log-level", "ERROR"]
            processes[switch] = start_child(command, start_new_session=True)
        yield processes
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        for process in processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def loopback_addresses(topology: Topology) -> dict[str, str]:
    ports = free_ports(len(topology.switches))
    return {switch: f"127.0.0.1:{port}" for switch, port in zip(topology.switches, ports, strict=True)}


def free_ports(count: int) -> list[int]:
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()

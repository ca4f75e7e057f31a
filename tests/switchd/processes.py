"""switchd as processes, which can be killed. Every process is ended by its own id."""

import subprocess
import sys
from pathlib import Path

from bench.micro.switch_processes import free_ports
from paceline.flowcore.model.topology import Topology

ROOT = Path(__file__).parents[2]


class Switches:
    def __init__(self, topology: Topology, description: str, place: Path, slot_ms: float) -> None:
        """`description`: the topology as TOML."""
        self.topology, self._place = topology, place
        ports = free_ports(len(topology.switches))
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(topology.switches, ports, strict=True)}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        for name in topology.switches:
            parents = [f'{parent} = "{self.addresses[parent]}"' for parent in topology.parents.get(name, ())]
            lines = [f'name = "{name}"', f'listen = "{self.addresses[name]}"', 'policy = "mlcc"']
            lines += ["[slots]", f"length_ms = {slot_ms}", "[topology]", description, "[parents]", *parents]
            (place / f"{name}.toml").write_text("\n".join(lines))

    def start(self, *names: str) -> None:
        for name in names or self.topology.switches:
            config = str(self._place / f"{name}.toml")
            self.processes[name] = run("switchd", "--config", config, "--log-level", "ERROR")

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.communicate()

    def signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)


def run(module: str, *arguments: str, **options) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, text=True, **pipes)

"""What a link carried over time, job by job, while a control was in force.

Sampled from outside the jobs: what their sockets' peers have acknowledged, as hostd reads it. So it is the same for
synthetic jobs and for torch, with daemons and without. What left the host beyond that was somebody else's.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.jobs_control import Control, Running
from bench.testbed.network import DATA_IFNAME, Testbed
from flowcore.patterns import FlowId, Role
from flowcore.scenario import Scenario
from flowcore.units import rate_bps
from hostd.sockets import DataSocket, ProcessSockets, by_host
from hostd.tcp_info import FlowMeter
from hostd.watched_job import WIRE_PER_PAYLOAD
from nccl_shim.reader import Reader
from sim.engine import Recording

EVERY_S = 0.02
LOOK_EVERY = 10  # samples between looks for new processes and sockets
OTHERS = "others"  # in place of a job


class Pictured:
    """A control with a camera on one host's uplink; `recording` begins with the first byte."""

    def __init__(self, control: Control, host: str, others: bool = False) -> None:
        """`others`: also what no job sent."""
        self.name, self.congestion_control = control.name, control.congestion_control
        self.recording = Recording()
        self._control, self._host, self._others = control, host, others

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator[Running]:
        stop = threading.Event()
        host_of = {str(address): host for host, address in testbed.addresses.data.items()}
        camera = threading.Thread(target=self._film, args=(directory / self._host, host_of, stop), daemon=True)
        with self._control.running(testbed, scenario, directory) as running:
            camera.start()
            try:
                yield running
            finally:
                stop.set()
                camera.join()

    def _film(self, directory: Path, host_of: dict[str, str], stop: threading.Event) -> None:
        self.recording.times_ns.clear()
        self.recording.rates_bps.clear()
        processes: dict[tuple[str, int], ProcessSockets] = {}
        meters: dict[FlowId, FlowMeter] = {}
        sockets: dict[FlowId, tuple[DataSocket, ...]] = {}
        began_ns, last_ns, number = 0, time.monotonic_ns(), 0
        others = FlowId(OTHERS, self._host, min({*host_of.values()} - {self._host}), Role.RING)
        left_bytes = 0
        with Reader(directory) as reader:
            while not stop.wait(EVERY_S):
                if number % LOOK_EVERY == 0:
                    for view in reader.poll():
                        if view.alive and view.host_pid is not None:
                            key = (view.snapshot.job, view.host_pid)
                            processes.setdefault(key, ProcessSockets(view.host_pid)).look()
                    sockets = self._flows(processes, host_of)
                number += 1
                now_ns = time.monotonic_ns()
                rates = {}
                for flow, own in sockets.items():
                    meter = meters.setdefault(flow, FlowMeter())
                    before = meter.sent_bytes
                    rates[flow] = rate_bps((meter.read(own) - before) * WIRE_PER_PAYLOAD, now_ns - last_ns)
                if self._others and processes:
                    before, left_bytes = left_bytes, _left_bytes(next(iter(processes))[1])
                    all_bps = rate_bps(left_bytes - before, now_ns - last_ns) if before else 0.0
                    rates[others] = max(0.0, all_bps - sum(rates.values()))
                if any(rates.values()):
                    began_ns = began_ns or last_ns
                if began_ns:
                    self.recording.times_ns.append(last_ns - began_ns)
                    self.recording.rates_bps.append(rates)
                last_ns = now_ns

    def _flows(
        self, processes: dict[tuple[str, int], ProcessSockets], host_of: dict[str, str]
    ) -> dict[FlowId, tuple[DataSocket, ...]]:
        found: dict[FlowId, tuple[DataSocket, ...]] = {}
        for (job, _), process in processes.items():
            for target, own in by_host(process.sockets, host_of, self._host).items():
                flow = FlowId(job, self._host, target, Role.RING)
                found[flow] = found.get(flow, ()) + own
        return found


def _left_bytes(pid: int) -> int:
    """What has left the host of this process on the data network; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[9]) for line in lines if line.strip().startswith(f"{DATA_IFNAME}:")), 0)

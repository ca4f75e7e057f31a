"""What a link carried over time, job by job, while a control was in force.

Sampled from outside the jobs: what their sockets' peers have acknowledged, as hostd reads it. So it is the same for
synthetic jobs and for torch, with daemons and without. What left the host beyond that is cross traffic.

When the jobs begin, their processes are connected and silent. So the first reading is taken at that moment, before
any process is let go, and none of their bytes is missed; what they sent each other before is not recorded.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.jobs.control import Control, DaemonCpu, RunningControl
from bench.testbed.network import DATA_IFNAME, Testbed
from hostd.kernel.flow_meter import FlowMeter
from hostd.kernel.sockets import DataSocket, ProcessSockets, by_host
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD
from nccl_shim.segment.reader import Reader
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.model.units import rate_bps
from paceline.sim.recording import Recording

EVERY_S = 0.02
LOOK_EVERY = 10  # samples between looks for new processes and sockets, once all jobs have sent something
OTHERS = "others"  # in place of a job


class RecordedControl:
    """A control under which one host's uplink is recorded; time zero of `recording` is when the jobs begin."""

    def __init__(self, control: Control, host: str, others: bool = False) -> None:
        """`others`: also the bytes that no job sent."""
        self.name, self.congestion_control = control.name, control.congestion_control
        self.recording = Recording()
        self._control, self._host, self._others = control, host, others

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator[RunningControl]:
        self.recording.times_ns.clear()
        self.recording.rates_bps.clear()
        host_of = {str(address): host for host, address in testbed.addresses.data.items()}
        jobs = {spec.name for spec in scenario.jobs if self._host in spec.workers + spec.servers}
        with (
            self._control.running(testbed, scenario, directory) as running,
            Reader(directory / self._host) as reader,
        ):
            recorder = LinkRecorder(self._host, host_of, jobs, reader, self.recording, self._others)
            try:
                yield RecordedRunningControl(running, recorder)
            finally:
                recorder.end()

    def observations(self) -> Any:
        """Nothing to store: `recording` has it."""
        return None


class RecordedRunningControl:
    """A running control, and the recorder that begins with it."""

    def __init__(self, running: RunningControl, recorder: "LinkRecorder") -> None:
        self._running, self._recorder = running, recorder

    def begin(self) -> None:
        self._recorder.begin()
        self._running.begin()

    def cpu(self) -> DaemonCpu:
        return self._running.cpu()

    def fail_opens(self) -> int:
        return self._running.fail_opens()


class LinkRecorder:
    """Samples in a thread of its own, from `begin` to `end`."""

    def __init__(
        self, host: str, host_of: dict[str, str], jobs: set[str], reader: Reader, recording: Recording, others: bool
    ) -> None:
        self._host, self._host_of, self._jobs, self._reader, self._recording = host, host_of, jobs, reader, recording
        self._processes: dict[tuple[str, int], ProcessSockets] = {}
        self._sockets: dict[FlowId, tuple[DataSocket, ...]] = {}
        self._meters: dict[FlowId, FlowMeter] = {}
        self._others = FlowId(OTHERS, host, min({*host_of.values()} - {host}), Role.RING) if others else None
        self._left_bytes = 0
        self._last_ns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)

    def begin(self) -> None:
        self._look()
        self._read()
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _record(self) -> None:
        began_ns, number = self._last_ns, 0
        while not self._stop.wait(EVERY_S):
            number += 1
            if number % LOOK_EVERY == 0 or not self._jobs <= {flow.job for flow in self._meters if self._sent(flow)}:
                self._look()
            self._recording.times_ns.append(self._last_ns - began_ns)
            self._recording.rates_bps.append(self._read())

    def _look(self) -> None:
        """For new processes and sockets."""
        for view in self._reader.poll():
            if view.alive and view.host_pid is not None:
                key = (view.snapshot.job, view.host_pid)
                self._processes.setdefault(key, ProcessSockets(view.host_pid, least_bytes=0)).look()
        found: dict[FlowId, tuple[DataSocket, ...]] = {}
        for (job, _), process in self._processes.items():
            for target, own in by_host(process.sockets, self._host_of, self._host).items():
                flow = FlowId(job, self._host, target, Role.RING)
                found[flow] = found.get(flow, ()) + own
        self._sockets = found

    def _read(self) -> dict[FlowId, float]:
        """Rates since the last reading."""
        now_ns = time.monotonic_ns()
        rates = {}
        for flow, own in self._sockets.items():
            meter = self._meters.setdefault(flow, FlowMeter())
            before = meter.sent_bytes
            rates[flow] = rate_bps((meter.read(own) - before) * WIRE_PER_PAYLOAD, now_ns - self._last_ns)
        if self._others is not None and self._processes:
            before, self._left_bytes = self._left_bytes, _left_bytes(next(iter(self._processes))[1])
            all_bps = rate_bps(self._left_bytes - before, now_ns - self._last_ns) if before else 0.0
            rates[self._others] = max(0.0, all_bps - sum(rates.values()))
        self._last_ns = now_ns
        return rates

    def _sent(self, flow: FlowId) -> bool:
        return self._meters[flow].sent_bytes > 0


def _left_bytes(pid: int) -> int:
    """What has left the host of this process on the data network; 0 when the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[9]) for line in lines if line.strip().startswith(f"{DATA_IFNAME}:")), 0)

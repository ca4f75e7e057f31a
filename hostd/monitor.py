"""What the jobs of this host do: counters in shared memory and in the kernel, turned into events (job_watch.py).

Looking must cost next to nothing while nothing happens:

    every POLL       one word per process: has it had an event since?                 2 µs for a host's jobs
    if it has        all its counters, and what its sockets have sent                 some 100 µs a process
    every second     new and dead processes, new and closed sockets

While a job sends it is read again when half the time has passed in which it could be through at the line's rate:
seldom in the middle of a burst, often at its end, where hand-over depends on it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flowcore.messages import HostEvent
from flowcore.patterns import FlowId, Role
from flowcore.units import transfer_ns
from hostd.job_watch import Ends, JobFacts, JobWatch
from hostd.sockets import DataSocket, ProcessSockets, by_host
from hostd.tcp_info import FlowMeter
from nccl_shim.layout import Kind
from nccl_shim.layout import Role as ShimRole
from nccl_shim.reader import ProcessView, Reader

SHORTEST_READ_NS = 4_000_000
LONGEST_READ_NS = 30_000_000
HOUSEKEEPING_NS = 1_000_000_000
LEARNING_LOOK_NS = 100_000_000  # a job that has not joined yet may be opening its connections

# Ethernet, IP and TCP headers: 1514 bytes on the wire for 1448 of data (MTU 1500, timestamps).
WIRE_PER_PAYLOAD = 1514 / 1448


@dataclass(slots=True)
class _Process:
    sockets: ProcessSockets
    view: ProcessView


@dataclass(slots=True)
class _Job:
    watch: JobWatch
    processes: dict[int, _Process] = field(default_factory=dict)  # by pid
    meters: dict[Ends, FlowMeter] = field(default_factory=dict)
    sockets: dict[Ends, tuple[DataSocket, ...]] = field(default_factory=dict)
    facts: JobFacts | None = None
    due_ns: int = 0  # when to read it again while it sends
    looked_ns: int = 0


class Monitor:
    """`poll` often; it says what happened. `on_sockets` hears when a joined flow's sockets changed."""

    def __init__(
        self,
        host: str,
        host_of: Mapping[str, str],
        nic_bps: float,
        directory: Path | None,
        on_sockets: Callable[[FlowId, tuple[DataSocket, ...]], None],
    ) -> None:
        self.jobs: dict[str, _Job] = {}
        self.invisible: dict[str, str] = {}  # why a process is not seen, by file or pid
        self._host, self._host_of, self._nic_bps = host, host_of, nic_bps
        self._reader = Reader(directory)
        self._on_sockets = on_sockets
        self._housekeeping_ns = 0

    def poll(self, now_ns: int) -> list[HostEvent]:
        if now_ns >= self._housekeeping_ns:
            self._housekeeping_ns = now_ns + HOUSEKEEPING_NS
            self._reader.reap()
            return self._read_all(now_ns)
        due = {name: job for name, job in self.jobs.items() if not job.watch.live or now_ns >= job.due_ns}
        to_read = {name: job for name, job in due.items() if job.watch.live}
        for view in self._reader.poll_stirred(due):
            job = due[view.snapshot.job]
            if view.host_pid in job.processes:
                job.processes[view.host_pid].view = view
                to_read[view.snapshot.job] = job
        return [event for job in to_read.values() for event in self._read_job(job, now_ns)]

    def progress(self) -> tuple[tuple[FlowId, float], ...]:
        """What every live flow has sent in its iteration, read now."""
        moved: list[tuple[FlowId, float]] = []
        for job in self.jobs.values():
            if job.watch.live and job.facts is not None:
                job.facts = self._facts(job, job.facts.iteration, job.facts.announced, job.facts.members)
                moved += job.watch.progress(job.facts)
        return tuple(moved)

    def sockets_of(self, flow: FlowId) -> tuple[DataSocket, ...]:
        job = self.jobs.get(flow.job)
        return job.sockets.get((flow.role, flow.target), ()) if job else ()

    def introduce(self, name: str) -> list[HostEvent]:
        """What somebody must hear who has missed the job's events so far."""
        job = self.jobs[name]
        return job.watch.introduce(job.facts) if job.facts is not None else []

    def close(self) -> None:
        self._reader.close()

    # ---- Reading ----

    def _read_all(self, now_ns: int) -> list[HostEvent]:
        views: dict[str, list[ProcessView]] = {}
        for view in self._reader.poll():
            if view.alive and not view.snapshot.finished and view.host_pid is not None:
                views.setdefault(view.snapshot.job, []).append(view)
        self.invisible = dict(self._reader.refused)
        events: list[HostEvent] = []
        for name in [name for name in self.jobs if name not in views]:
            events += self.jobs.pop(name).watch.left()
        for name, processes in views.items():
            job = self.jobs.setdefault(name, _Job(JobWatch(name, self._host)))
            self._who_is_there(job, processes)
            self._look(job, now_ns)
            events += self._read_job(job, now_ns)
        return events

    def _who_is_there(self, job: _Job, views: Iterable[ProcessView]) -> None:
        present = {view.host_pid: view for view in views if view.host_pid is not None}
        for gone in job.processes.keys() - present.keys():
            del job.processes[gone]
        for pid, view in present.items():
            process = job.processes.setdefault(pid, _Process(ProcessSockets(pid), view))
            process.view = view

    def _read_job(self, job: _Job, now_ns: int) -> list[HostEvent]:
        if not job.watch.sizes and now_ns - job.looked_ns >= LEARNING_LOOK_NS:
            self._look(job, now_ns)
        views = [process.view for process in job.processes.values()]
        marks = [view.snapshot.mark for view in views if view.snapshot.mark is not None]
        iteration = max((mark.iteration for mark in marks), default=0)
        announced = any(
            view.iteration_enqueued_bytes > 0
            for view in views
            if view.snapshot.mark is not None and view.snapshot.mark.iteration == iteration
        )
        members = max((view.snapshot.world_size for view in views), default=0)
        job.facts = self._facts(job, iteration, announced, members)
        events = job.watch.observe(job.facts)
        left_bytes = max((job.watch.sizes[ends] - sent for ends, sent in job.watch.sent(job.facts)), default=0.0)
        half_ns = transfer_ns(left_bytes, self._nic_bps) // 2
        job.due_ns = now_ns + min(max(half_ns, SHORTEST_READ_NS), LONGEST_READ_NS)
        return events

    def _facts(self, job: _Job, iteration: int, announced: bool, members: int) -> JobFacts:
        sent: dict[Ends, float] = {}
        received: dict[Ends, float] = {}
        for ends, sockets in job.sockets.items():
            meter = job.meters.setdefault(ends, FlowMeter())
            meter.read(sockets)
            sent[ends] = meter.sent_bytes * WIRE_PER_PAYLOAD
            received[ends] = meter.received_bytes * WIRE_PER_PAYLOAD
        return JobFacts(iteration, announced, members, sent, received)

    def _look(self, job: _Job, now_ns: int) -> None:
        """Which sockets the job has now."""
        job.looked_ns = now_ns
        for pid, process in job.processes.items():
            process.sockets.look()
            if process.sockets.refused:
                self.invisible[str(pid)] = process.sockets.refused
        found: dict[Ends, tuple[DataSocket, ...]] = dict.fromkeys(job.sockets, ())
        for process in job.processes.values():
            for target, sockets in by_host(process.sockets.sockets, self._host_of, self._host).items():
                ends = (_role(process.view), target)
                found[ends] = found.get(ends, ()) + sockets
        changed = [ends for ends, sockets in found.items() if sockets != job.sockets.get(ends)]
        job.sockets = found
        flows = job.watch.flow_ids()
        for ends in changed:
            if ends in flows:
                self._on_sockets(flows[ends], found[ends])


def _role(view: ProcessView) -> Role:
    """A parameter server's process says so; a worker that pushes has one."""
    if view.snapshot.role is ShimRole.SERVER:
        return Role.PULL
    return Role.PUSH if any(flow.kind is Kind.PUSH for flow in view.snapshot.flows) else Role.RING

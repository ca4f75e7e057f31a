"""What the jobs of this host do: counters in shared memory and in the kernel, turned into events (job_watch.py).

Looking must cost next to nothing, and waking up to look costs more than looking: some 50 to 100 µs of CPU a time. So
every job has a time at which it is looked at next, on a grid that makes their times coincide:

    learning     LOOK_NS from now
    computing    LOOK_NS from now once it could begin to send: at SOONEST of the shortest compute phase seen lately;
                 before, then
    sending      after half the time it needs for the rest at its speed, and at the line's speed when it was given
                 another rate: hardly ever in the middle of a burst, often at its end, where hand-over depends on
                 it; all sending jobs together every MARKS_NS
    receiving    (it has sent everything, and its iteration has not ended) after RECEIVING_NS
    whatever     PATIENT_NS from now while nobody decides by what is seen (observe mode)

A look is one word per process: has it had an event since? If so, its counters are read and what its sockets have
sent. Those are read for decisions, too, but not again within FRESH_NS: an answer mostly comes sooner than that after
the report, and what decides does not look closer (flowcore/policy/paceline.py: FINEST_NS).
Once a second: new and dead processes, new and closed sockets.
"""

import math
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flowcore.messages import FlowReady, HostEvent, IterationEnded
from flowcore.patterns import FlowId, Role
from flowcore.units import transfer_ns
from hostd.job_watch import Ends, JobFacts, JobWatch
from hostd.sockets import DataSocket, ProcessSockets, by_host
from hostd.tcp_info import FlowMeter
from nccl_shim.layout import Kind, Source
from nccl_shim.layout import Role as ShimRole
from nccl_shim.reader import ProcessView, Reader

LOOK_NS = 2_000_000  # how late a burst may be noticed
SHORTEST_READ_NS = 2 * LOOK_NS
FRESH_NS = 10_000_000
RECEIVING_NS = 4 * LOOK_NS
PATIENT_NS = 50_000_000  # a shorter iteration is counted together with the next
MARKS_NS = 100_000_000  # all sending jobs are read: an iteration may turn out much smaller than the last ones
SOONEST, PHASES = 0.75, 8
HOUSEKEEPING_NS = 1_000_000_000
IDLE_NS = 100_000_000  # without jobs: so late may a first one be noticed
LEARNING_LOOK_NS = 100_000_000  # a job that has not joined yet may be opening its connections

# Ethernet, IP and TCP headers: 1514 bytes on the wire for 1448 of data (MTU 1500, timestamps).
WIRE_PER_PAYLOAD = 1514 / 1448


@dataclass(slots=True)
class _Speed:
    """Of a job's flow that has most to send, between two readings that are not too close."""

    _bytes_per_ns: float = 0.0
    _at_ns: int = 0
    _left_bytes: float = 0.0

    def time_left_ns(self, left_bytes: float, now_ns: int) -> float:
        """As fast as it was lately."""
        if now_ns - self._at_ns >= LOOK_NS:
            self._bytes_per_ns = max(0.0, self._left_bytes - left_bytes) / (now_ns - self._at_ns)
            self._at_ns, self._left_bytes = now_ns, left_bytes
        return left_bytes / self._bytes_per_ns if self._bytes_per_ns else math.inf


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
    due_ns: int = 0  # when to look at it again
    read_ns: int = 0  # when its counters were last read,
    measured_ns: int = 0  # ... and its sockets
    told_ns: int = 0  # what was measured by then has been told as progress
    looked_ns: int = 0  # when its sockets were last looked for
    ended_ns: int | None = None  # its last iteration, while it computes
    speed: _Speed = field(default_factory=_Speed)
    compute_ns: deque[int] = field(default_factory=lambda: deque(maxlen=PHASES))


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
        self.patient = False  # nobody decides by what we see
        self.invisible: dict[str, str] = {}  # why a process is not seen, by file or pid
        self._host, self._host_of, self._nic_bps = host, host_of, nic_bps
        self._reader = Reader(directory)
        self._on_sockets = on_sockets
        self._housekeeping_ns = 0

    @property
    def due_ns(self) -> int:
        """When to poll next."""
        return min([self._housekeeping_ns, *(job.due_ns for job in self.jobs.values())])

    def poll(self, now_ns: int) -> list[HostEvent]:
        if now_ns >= self._housekeeping_ns:
            self._housekeeping_ns = now_ns + (HOUSEKEEPING_NS if self.jobs else IDLE_NS)
            return self._read_all(now_ns)
        due = {name: job for name, job in self.jobs.items() if now_ns >= job.due_ns}
        to_read = {name: job for name, job in due.items() if job.watch.live}
        for view in self._reader.poll_stirred(due):
            job = due[view.snapshot.job]
            if view.host_pid in job.processes:
                job.processes[view.host_pid].view = view
                to_read[view.snapshot.job] = job
        events = [event for job in to_read.values() for event in self._read_job(job, now_ns)]
        for job in due.values():
            self._schedule(job, now_ns)
        return events

    def progress(self, now_ns: int, jobs: Container[str]) -> tuple[tuple[FlowId, float], ...]:
        """What the live flows of these jobs have sent in their iteration, unless it was told a moment ago."""
        moved: list[tuple[FlowId, float]] = []
        for name, job in self.jobs.items():
            if not job.watch.live or job.facts is None or name not in jobs:
                continue
            if now_ns - job.measured_ns >= FRESH_NS:
                job.facts = self._measured(job, job.facts, now_ns)
                self._schedule(job, now_ns)
            if job.told_ns < job.measured_ns:
                job.told_ns = job.measured_ns
                moved += job.watch.progress(job.facts)
        return tuple(moved)

    def let_go(self, jobs: Iterable[str], now_ns: int) -> None:
        """They have other rates: what they sent so far says nothing about what they will."""
        for name in jobs:
            if (job := self.jobs.get(name)) is not None and job.watch.live:
                self._schedule(job, now_ns, let_go=True)

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
        found = self._reader.poll()
        if not all(view.alive for view in found):
            self._reader.reap()
        for view in found:
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
            self._schedule(job, now_ns)
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
        facts = JobFacts(
            iteration,
            announced,
            marks_early=any(flow.source is Source.NCCL for view in views for flow in view.snapshot.flows),
            members=max((view.snapshot.world_size for view in views), default=0),
            sent_bytes={},
            received_bytes={},
        )
        job.facts = self._measured(job, facts, now_ns)
        job.read_ns = now_ns
        events = job.watch.observe(job.facts)
        self._time_phases(job, events, now_ns)
        return events

    def _time_phases(self, job: _Job, events: Iterable[HostEvent], now_ns: int) -> None:
        for event in events:
            match event:
                case IterationEnded():
                    job.ended_ns = now_ns
                case FlowReady() if job.ended_ns is not None:
                    job.compute_ns.append(now_ns - job.ended_ns)
                    job.ended_ns = None

    def _schedule(self, job: _Job, now_ns: int, let_go: bool = False) -> None:
        """When to look at it again."""
        due_ns = now_ns + LOOK_NS
        if self.patient:
            due_ns = now_ns + PATIENT_NS
        elif job.watch.live and job.facts is not None:
            left_bytes = max(job.watch.sizes[ends] - sent for ends, sent in job.watch.sent(job.facts))
            left_ns = job.speed.time_left_ns(left_bytes, now_ns)
            if let_go:
                left_ns = transfer_ns(left_bytes, self._nic_bps)
            marks_ns = (job.read_ns // MARKS_NS + 1) * MARKS_NS
            due_ns = round(min(now_ns + max(left_ns / 2, SHORTEST_READ_NS), marks_ns))
        elif job.ended_ns is not None and job.compute_ns:
            due_ns = max(due_ns, job.ended_ns + round(SOONEST * min(job.compute_ns)))
        elif job.watch.sizes:
            due_ns = now_ns + RECEIVING_NS
        job.due_ns = due_ns - due_ns % LOOK_NS

    def _measured(self, job: _Job, facts: JobFacts, now_ns: int) -> JobFacts:
        """The same with what the sockets have carried by now."""
        job.measured_ns = now_ns
        sent: dict[Ends, float] = {}
        received: dict[Ends, float] = {}
        for ends, sockets in job.sockets.items():
            meter = job.meters.setdefault(ends, FlowMeter())
            meter.read(sockets)
            sent[ends] = meter.sent_bytes * WIRE_PER_PAYLOAD
            received[ends] = meter.received_bytes * WIRE_PER_PAYLOAD
        return facts._replace(sent_bytes=sent, received_bytes=received)

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

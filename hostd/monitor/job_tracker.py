"""One job as the monitor knows it: its processes, their sockets, what those have carried, and when to look again.

What its counters mean is job_watch.py's; where they come from is here: from the shim and the kernel, or, for a job
without the shim, from the kernel alone. A parameter server's process knows no iterations, only its workers' calls:
where theirs begin and end is told from the kernel, too.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hostd.kernel.sockets import DataSocket, ProcessSockets, by_host
from hostd.kernel.tcp_info import FlowMeter
from hostd.monitor.iteration_tracker import LEAST_PART, Ends, JobFacts, JobWatch
from nccl_shim.segment.layout import Kind, ProcessRole, Source
from nccl_shim.segment.reader import ProcessView
from paceline.flowcore.detect.bursts import NEARLY, BurstRhythm
from paceline.flowcore.messages.events import FlowReady, HostEvent, IterationEnded
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import transfer_bytes, transfer_ns

LOOK_NS = 2_000_000  # how late a burst may be noticed
PLAIN_LOOK_NS = 2 * LOOK_NS  # the same of a job without the shim, at which a look costs more
SHORTEST_READ_NS = 2 * LOOK_NS
RECEIVING_NS, LONGEST_RECEIVING_NS = 4 * LOOK_NS, 20 * LOOK_NS
PATIENCE = 0.25  # of the time it has been waiting, and of the time it will compute: its next burst is seen all the same
MARKS_NS = 100_000_000  # all sending jobs are read: an iteration may turn out much smaller than the last ones
SOONEST, PHASES = 0.75, 8
REST_NS = 5_000_000  # nothing sent for so long
NEXT_TO_NOTHING = 0.005  # of an iteration
ANNOUNCING = 0.005  # of what the last one sent: buffers and a loss that is summed up to be printed are no burst

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
    view: ProcessView | None = None  # without the shim there is none


@dataclass(slots=True)
class WatchedJob:
    watch: JobWatch
    rhythm: BurstRhythm | None = None  # of a job that marks no iterations
    processes: dict[int, _Process] = field(default_factory=dict)  # by pid
    sockets: dict[Ends, tuple[DataSocket, ...]] = field(default_factory=dict)
    facts: JobFacts | None = None
    due_ns: int = 0  # when to look at it again
    polled_ns: int = 0  # when its counters were last asked for news,
    measured_ns: int = 0  # ... and its sockets read
    told_ns: int = 0  # what was measured by then has been told as progress
    looked_ns: int = 0  # when its sockets were last looked for
    stirred_ns: int = 0  # when its counters were last seen to move
    _ceiling_bps: dict[FlowId, float] = field(default_factory=dict)  # what each flow may send at most
    _limited_ns: int = 0  # ... since then
    _moved_ns: int = 0  # when its sockets were last seen to have sent something
    _meters: dict[Ends, FlowMeter] = field(default_factory=dict)
    _lost: int = 0  # readings of theirs that had failed at the last look
    _receiving: dict[Ends, tuple[DataSocket, ...]] = field(default_factory=dict)  # sockets that have sent nothing yet
    _heard: dict[Ends, FlowMeter] = field(default_factory=dict)  # ... and what they carried
    _received: Mapping[Ends, float] = field(default_factory=dict)  # when the last iteration ended,
    _feeds: Mapping[Ends, float] = field(default_factory=dict)  # ... and in the course of it
    _fed_iteration: int = -1
    _ended_ns: int | None = None  # its last iteration, while it computes
    _connections: frozenset[int] = frozenset()
    _speed: _Speed = field(default_factory=_Speed)
    _compute_ns: deque[int] = field(default_factory=lambda: deque(maxlen=PHASES))

    def consists_of(self, present: Mapping[int, ProcessView | None]) -> None:
        """These processes, from now on."""
        for gone in self.processes.keys() - present.keys():
            del self.processes[gone]
        for pid, view in present.items():
            self.processes.setdefault(pid, _Process(ProcessSockets(pid))).view = view
        marked = any(_marks_iterations(view) for view in present.values())
        self.rhythm = None if marked else self.rhythm or BurstRhythm()

    def has_marked(self) -> bool:
        """An iteration has ended since it was last read."""
        return self.facts is not None and self._of_shim().iteration != self.facts.iteration

    def look(self, now_ns: int, host_of: Mapping[str, str], host: str) -> list[FlowId]:
        """For its sockets; returns the flows of which they have changed."""
        self.looked_ns = now_ns
        lost = sum(meter.lost for meter in self._meters.values())
        for process in self.processes.values():
            process.sockets.look(anew=lost != self._lost)
        self._lost, before = lost, self.sockets
        self.sockets = self._by_ends(before, lambda process: process.sockets, host_of, host)
        self._receiving = self._by_ends(self._receiving, lambda process: process.receiving, host_of, host)
        found = (*self.sockets.values(), *self._receiving.values())
        self._connections = frozenset(one.cookie for them in found for one in them)
        for ends in self.sockets.keys() & self._heard.keys():
            self._meters.setdefault(ends, FlowMeter()).take_over(self._heard[ends])
        self._hear()
        flows = self.watch.flow_ids()
        return [flows[ends] for ends, them in self.sockets.items() if them != before.get(ends) and ends in flows]

    def _by_ends(
        self,
        known: Mapping[Ends, Iterable[DataSocket]],
        of: Callable[[ProcessSockets], Iterable[DataSocket]],
        host_of: Mapping[str, str],
        host: str,
    ) -> dict[Ends, tuple[DataSocket, ...]]:
        """Forked processes inherit sockets, and a process may have copies. Each socket counts once: through the
        descriptor it was found by before, while that is there."""
        before = {one.cookie: one for them in known.values() for one in them}
        once: dict[int, tuple[Ends, DataSocket]] = {}  # by cookie
        for process in self.processes.values():
            for target, sockets in by_host(of(process.sockets), host_of, host).items():
                ends = (_role(process.view), target)
                for one in sockets:
                    if one.cookie not in once or one == before.get(one.cookie):
                        once[one.cookie] = (ends, one)
        found: dict[Ends, tuple[DataSocket, ...]] = dict.fromkeys(known, ())
        for ends, one in once.values():
            found[ends] = (*found.get(ends, ()), one)
        return found

    def read(self, now_ns: int) -> list[HostEvent]:
        """Its counters and sockets, and what has happened since."""
        if self.rhythm is None:
            self.facts = self._fed(self._measured(self._of_shim(), now_ns))
            events = self.watch.observe(self.facts)
        else:
            self.facts = self._by_rhythm(self.rhythm, now_ns)
            events = self.watch.observe(self.facts) if self.rhythm.regular else self.watch.left()
        self.polled_ns = now_ns
        self._time_phases(events, now_ns)
        return events

    def measure(self, now_ns: int) -> None:
        """Its sockets alone."""
        if self.facts is not None:
            self.facts = self._measured(self.facts, now_ns)

    def is_quiet(self, now_ns: int) -> bool:
        """Has nothing to send, as far as its sockets can tell, or may not: only its counters can say something new."""
        if self.watch.live:
            return self.stands(now_ns)
        return self.facts is not None and self.facts.resting

    def limited(self, flow: FlowId, ceiling_bps: float, now_ns: int) -> None:
        """The flow may send so much at most, from now on."""
        self._ceiling_bps[flow] = ceiling_bps
        self._limited_ns = now_ns

    def stands(self, now_ns: int) -> bool:
        """Its limits let it send next to nothing since it was measured; another look would tell nothing new."""
        if not self._ceiling_bps or not self.watch.sizes or self.measured_ns <= self._limited_ns:
            return False
        at_most_bytes = transfer_bytes(max(self._ceiling_bps.values()), now_ns - self.measured_ns)
        return at_most_bytes <= NEXT_TO_NOTHING * min(self.watch.sizes.values())

    def schedule(self, now_ns: int, nic_bps: float, let_go: bool = False) -> None:
        """When to look at it again; `let_go`: what it sent so far says nothing about what it will."""
        due_ns = now_ns + (LOOK_NS if self.rhythm is None else PLAIN_LOOK_NS)
        if self.watch.live and self.facts is not None:
            left_bytes = max(self.watch.sizes[ends] - sent for ends, sent in self.watch.sent(self.facts))
            left_ns = self._speed.time_left_ns(left_bytes, now_ns)
            if left_bytes <= (1 - NEARLY) * max(self.watch.sizes.values()):
                left_ns = 0.0  # or there is nothing left, and it rests
            elif let_go:
                left_ns = transfer_ns(left_bytes, nic_bps)
            marks_ns = (self.polled_ns // MARKS_NS + 1) * MARKS_NS
            due_ns = round(min(now_ns + max(left_ns / 2, SHORTEST_READ_NS), marks_ns))
        elif self._ended_ns is not None and self._compute_ns:
            due_ns = max(due_ns, self._ended_ns + round(SOONEST * min(self._compute_ns)))
        elif self.watch.sizes:
            due_ns = now_ns + self._patience_ns(now_ns)
        self.due_ns = due_ns - due_ns % LOOK_NS

    def _patience_ns(self, now_ns: int) -> int:
        """With a job that only receives."""
        least_ns = min(now_ns - self._moved_ns, *self._compute_ns) if self._compute_ns else 0
        return min(max(RECEIVING_NS, round(PATIENCE * least_ns)), LONGEST_RECEIVING_NS)

    def _of_shim(self) -> JobFacts:
        views = [process.view for process in self.processes.values() if process.view is not None]
        counters = [view.snapshot.iteration_counter for view in views if view.snapshot.iteration_counter is not None]
        iteration = max((counter.iteration for counter in counters), default=0)
        announced = any(
            view.iteration_enqueued_bytes > ANNOUNCING * view.snapshot.iteration_counter.last_enqueued_bytes
            for view in views
            if view.snapshot.iteration_counter is not None and view.snapshot.iteration_counter.iteration == iteration
        )
        return JobFacts(
            iteration,
            announced,
            marks_early=any(flow.source is Source.NCCL for view in views for flow in view.snapshot.flows),
            members=max((view.snapshot.world_size for view in views), default=0),
            sent_bytes={},
            received_bytes={},
        )

    def _by_rhythm(self, rhythm: BurstRhythm, now_ns: int) -> JobFacts:
        """Without the shim nobody knows who feeds whom, nor how many members there are: nothing is said of it."""
        facts = self._measured(self._of_shim(), now_ns)
        sent_bytes, received_bytes = sum(facts.sent_bytes.values()), sum(facts.received_bytes.values())
        rhythm.observe(now_ns, sent_bytes, received_bytes, sum(one.waiting_bytes for one in self._meters.values()))
        facts = facts._replace(iteration=rhythm.bursts, announced=rhythm.sending)
        return facts if facts.members else facts._replace(received_bytes={})

    def _measured(self, facts: JobFacts, now_ns: int) -> JobFacts:
        """The same with what the sockets have carried by now."""
        self.measured_ns = now_ns
        sent: dict[Ends, float] = {}
        received: dict[Ends, float] = {}
        for ends, sockets in self.sockets.items():
            meter = self._meters.setdefault(ends, FlowMeter())
            meter.read(sockets)
            sent[ends] = meter.sent_bytes * WIRE_PER_PAYLOAD
            received[ends] = meter.received_bytes * WIRE_PER_PAYLOAD
        if self.rhythm is not None or facts.iteration != self._fed_iteration:
            self._hear()
        for ends, meter in self._heard.items():
            received[ends] = received.get(ends, 0.0) + meter.received_bytes * WIRE_PER_PAYLOAD
            sent[ends] = sent.get(ends, 0.0) + meter.sent_bytes * WIRE_PER_PAYLOAD  # who was only fed may begin to send
        if self.facts is None or sent != self.facts.sent_bytes:
            self._moved_ns = now_ns
        return facts._replace(
            sent_bytes=sent,
            received_bytes=received,
            resting=now_ns - self._moved_ns >= REST_NS,
            connections=self._connections,
            idle=frozenset(ends for ends in self.sockets if not self._meters[ends].waiting_bytes),
        )

    def _fed(self, facts: JobFacts) -> JobFacts:
        """The same with what was received in the last iteration, and not what prepared the first, nor control."""
        if facts.iteration != self._fed_iteration:
            received = {ends: size - self._received.get(ends, 0.0) for ends, size in facts.received_bytes.items()}
            least_bytes = LEAST_PART * max(received.values(), default=0.0)
            self._feeds = {ends: size for ends, size in received.items() if size > least_bytes}
            self._received, self._fed_iteration = facts.received_bytes, facts.iteration
        elif self.watch.before_first and not facts.announced:
            self._received = facts.received_bytes
        return facts._replace(received_bytes=self._feeds)

    def _hear(self) -> None:
        """What was carried by sockets that have sent nothing yet: not read as often as the others."""
        for ends, sockets in self._receiving.items():
            self._heard.setdefault(ends, FlowMeter()).read(sockets)

    def _time_phases(self, events: Iterable[HostEvent], now_ns: int) -> None:
        for event in events:
            match event:
                case IterationEnded():
                    self._ended_ns = now_ns
                case FlowReady() if self._ended_ns is not None:
                    self._compute_ns.append(now_ns - self._ended_ns)
                    self._ended_ns = None


def _marks_iterations(view: ProcessView | None) -> bool:
    """A worker will, if it has not yet; a server does if it is told to."""
    if view is None:
        return False
    counter = view.snapshot.iteration_counter
    return view.snapshot.role is not ProcessRole.SERVER or (counter is not None and counter.iteration > 0)


def _role(view: ProcessView | None) -> Role:
    """A parameter server's process says so; a worker that pushes has one."""
    if view is None:
        return Role.RING
    if view.snapshot.role is ProcessRole.SERVER:
        return Role.PULL
    return Role.PUSH if any(flow.kind is Kind.PUSH for flow in view.snapshot.flows) else Role.RING

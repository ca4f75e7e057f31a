"""One job as the monitor knows it: its processes, what their counters and sockets say, and when to look again.

What the counters mean is flowcore/demand's; where they come from is here: from the shim and the kernel, or, for a
job without the shim, from the kernel alone. A parameter server's process knows no iterations, only its workers' calls:
where theirs begin and end is told from the kernel, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hostd.kernel.calls import Call, counter_calls
from hostd.kernel.sockets import ProcessSockets
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD
from hostd.monitor.counted_flows import Control, CountedFlows
from hostd.monitor.job_sockets import ByEnds, Carried, JobSockets
from hostd.monitor.poll_schedule import EARLY, LOOK_NS, PollSchedule
from nccl_shim.segment.layout import OUTBOUND, Kind, ProcessRole, Source
from nccl_shim.segment.reader import ProcessView
from nccl_shim.segment.snapshot import ProcessSnapshot
from paceline.flowcore.demand.announced import AnnouncedDemand
from paceline.flowcore.demand.demand import ANNOUNCING, Demand
from paceline.flowcore.demand.facts import LEAST_PART, Ends, JobFacts
from paceline.flowcore.demand.launched import LaunchedDemand
from paceline.flowcore.demand.rhythm import IterationRhythm
from paceline.flowcore.demand.timing import JobTiming
from paceline.flowcore.detect.bursts import BurstRhythm
from paceline.flowcore.messages.events import FLOOR_BPS, SHORTEST_BURST_NS, HostEvent, Limit
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import transfer_bytes, transfer_ns

REST_NS = 5_000_000  # nothing sent for so long

# ... or for so long, where a job has launched more: its members wait for each other now and then, and at 10 Gbit/s the
# machine stops for milliseconds in the middle of a burst. Turns are no shorter than that.
LAUNCHED_REST_NS = 20_000_000
PAUSE_NS = 2_000_000_000  # a job that sends nothing for so long may hang: its many sockets are not read for that
SLOWER = 4  # than the host's link a job may send that has it not to itself
NEXT_TO_NOTHING = 0.005  # of an iteration
LATE_NS = 60_000_000  # so long an answer of its sockets may be missing; then nothing has moved
TURN_LOOKS = 8  # a burst that is over sooner is seen too late, at its beginning and its end, for turns
LONGEST_LEARNING_NS = 20_000_000  # between looks at a job that has been learned for a thousand times that
LEFT_TO_TCP_NS = 100_000_000  # a job that is left to TCP: nothing depends on its bursts, only whether they change


@dataclass(slots=True)
class TrackedProcess:
    sockets: ProcessSockets
    view: ProcessView | None = None  # without the shim there is none


class JobTracker:
    def __init__(self, job: str, host: str, now_ns: int = 0, nic_bps: float = 0.0) -> None:
        self.demand: Demand = AnnouncedDemand(job, host, transfer_bytes(nic_bps, SHORTEST_BURST_NS))
        self._nic_bps = nic_bps
        self.rhythm: BurstRhythm | None = None  # of a job without an iteration counter
        self._unmarked = IterationRhythm()  # of a job over NCCL that has moved its counter never
        self.processes: dict[int, TrackedProcess] = {}  # by pid
        self.sockets = JobSockets()
        self._handed_over = CountedFlows()
        self._control = Control()
        self.facts: JobFacts | None = None
        self.timing = JobTiming()
        self.is_looked_at_closely = True  # else a look may miss where a burst begins
        self.due_ns = 0  # when to look at it again
        self.polled_ns = 0  # when its counters were last asked for news,
        self.measured_ns = 0  # ... and its sockets read
        self.told_ns = 0  # what was measured by then has been told as progress
        self._read_ns = 0  # when to read its sockets while it sends, if its counters say nothing new before,
        self._planned_ns = -1  # ... by what was measured then
        self.looked_ns = 0  # when its sockets were last looked for
        self.seen_ns = now_ns  # when it was first seen
        self.changed_ns = now_ns  # when its counters were last seen to move
        self._schedule = PollSchedule()
        self._limits: dict[FlowId, Limit] = {}  # of its flows
        self._limited_ns = 0  # ... since then
        self._moved_ns = 0  # when its sockets were last seen to have sent something
        self._lost = 0  # readings of its sockets that had failed at the last look
        self._feeds = _Feeds()
        self._counted: JobFacts | None = None  # by the shim; None: it has counted since
        self._sent_before = 0.0  # by all of its sockets, when processes of it last ended

    def consists_of(self, present: Mapping[int, ProcessView | None]) -> None:
        """These processes, from now on."""
        if gone := self.processes.keys() - present.keys():
            self._sent_before = self._sent_bytes
        for pid in gone:
            del self.processes[pid]
        for pid, view in present.items():
            self.processes.setdefault(pid, TrackedProcess(ProcessSockets(pid))).view = view
        self._counted = None
        snapshots = [view.snapshot for view in present.values() if view is not None]
        self.demand.weight = max([one.weight for one in snapshots], default=1.0)
        self.demand.iterations = max([one.iterations for one in snapshots], default=0)
        counted = any(_counts_iterations(view) for view in present.values())
        self.rhythm = None if counted else self.rhythm or BurstRhythm()

    def counted(self, view: ProcessView, now_ns: int) -> None:
        """One of its processes has."""
        assert view.host_pid is not None
        self.processes[view.host_pid].view = view
        self.changed_ns, self._counted = now_ns, None

    def has_ended_iteration(self) -> bool:
        """Since it was last read."""
        return self.facts is not None and self._of_shim().iteration != self.facts.iteration

    def calls_of_look(self) -> list[Call]:
        """What `look` and `read` will ask, as far as it is known before."""
        looks = [process.sockets.look_call(self.sockets.lost != self._lost) for process in self.processes.values()]
        return looks + counter_calls(self.sockets.all())

    def look(self, now_ns: int, host_of: Mapping[str, str], host: str) -> list[FlowId]:
        """For its sockets; returns the flows of which they have changed."""
        self.looked_ns = now_ns
        self._handed_over.know(host_of, host)
        before, self._lost = self._lost, self.sockets.lost
        for process in self.processes.values():
            process.sockets.look(anew=self._lost != before)
        processes = [(_role(process.view), process.sockets) for process in self.processes.values()]
        changed = self.sockets.found(
            [(role, them.sockets) for role, them in processes],
            [(role, them.receiving) for role, them in processes],
            host_of,
            host,
        )
        counted_bytes = sum(self._handed_over.sent_bytes(self._views).values())
        if self._control.observe(counted_bytes, self.sockets.taken_bytes * WIRE_PER_PAYLOAD):
            return [*self.demand.flow_ids().values()]
        return [flow for ends, flow in self.demand.flow_ids().items() if ends in changed]

    @property
    def _views(self) -> list[ProcessView]:
        return [process.view for process in self.processes.values() if process.view is not None]

    @property
    def data_sockets(self) -> ByEnds:
        return {} if self._control.only else self.sockets.sending

    @property
    def has_sockets(self) -> bool:
        """That carry its data. Else its flows are those that its net plugin counts."""
        return bool(self.data_sockets)

    def counted_peers(self, target: str) -> frozenset[tuple[int, str]]:
        """Its processes whose net plugin sends to that host, and to which address."""
        return self._handed_over.peers(self._views, target)

    def read(self, now_ns: int) -> list[HostEvent]:
        """Its counters and sockets, and what has happened since."""
        measured, self.polled_ns = self._measured(self._of_shim(), now_ns), now_ns
        if measured is None:
            return []  # what its counters say is heard with the sockets' next answer (is_quiet)
        events: list[HostEvent] = []
        if self.rhythm is None:
            measured = self._with_unmarked(measured) if measured.counts_early else measured
            feeds = self._feeds.update(measured, self.demand.before_first)
            self.facts = measured._replace(received_bytes=feeds)
            if measured.counts_early and not isinstance(self.demand, LaunchedDemand):  # its first communicator has come
                events += self.demand.left()
                before = self.demand
                self.demand = LaunchedDemand(before.job, before.host, before.least_bytes)
                self.demand.weight, self.demand.iterations = before.weight, before.iterations
            events += self.demand.observe(self.facts)
        else:
            self.facts = self._by_rhythm(self.rhythm, measured, now_ns)
            events += self.demand.observe(self.facts) if self.rhythm.regular else self.demand.left()
        self.timing.observe(self.facts, now_ns, self.is_looked_at_closely)
        self._schedule.note(events, self.demand.between_bursts, now_ns)
        return events

    def measure(self, now_ns: int) -> None:
        """Its sockets alone."""
        if self.facts is not None:
            self.facts = self._measured(self.facts, now_ns) or self.facts

    def is_quiet(self, now_ns: int) -> bool:
        """Has nothing to send, as far as its sockets can tell, or may not, or not enough: only its counters can say
        something new."""
        if self.demand.live:
            return now_ns < self._read_ns or self.is_held(now_ns)
        if self.facts is None or not self.facts.resting or self.sockets.late:
            return False
        # What is launched next may be held up by another job's burst, and then its counters say nothing.
        launches = isinstance(self.demand, LaunchedDemand) and self.demand.paced
        return not launches or now_ns - self._moved_ns >= PAUSE_NS

    def limited(self, limit: Limit, now_ns: int) -> bool:
        """From now on; whether the flow may send more than before, or is guaranteed more."""
        before, self._limits[limit.flow] = self._limits.get(limit.flow), limit
        self._limited_ns = now_ns
        return before is None or limit.rate_bps > before.rate_bps or limit.ceiling_bps > before.ceiling_bps

    def is_held(self, now_ns: int) -> bool:
        """Its limits let it send next to nothing since it was measured; another look would tell nothing new."""
        sizes = self.demand.sizes
        if not self._limits or not sizes or self.measured_ns <= self._limited_ns:
            return False
        return self._crawls(now_ns - self.measured_ns)

    def _crawls(self, duration_ns: int) -> bool:
        """Its limits let it send next to nothing in that time."""
        if not self._limits:
            return False
        at_most_bytes = transfer_bytes(max(limit.ceiling_bps for limit in self._limits.values()), duration_ns)
        return at_most_bytes <= NEXT_TO_NOTHING * min(self.demand.sizes.values())

    @property
    def _marks(self) -> bool:
        """Ends of iterations: at least one so far."""
        return self.facts is not None and self.facts.iteration > 0

    @property
    def announces(self) -> bool:
        """Its counters say when a burst begins, however late they are looked at."""
        return self.rhythm is None and not isinstance(self.demand, LaunchedDemand)

    def schedule(self, now_ns: int, nic_bps: float, let_go: bool = False, finest_ns: int = LOOK_NS) -> None:
        """When to look at it again; `let_go`: what it sent so far says nothing about what it will."""
        demand, announces = self.demand, self.announces
        demand.least_bytes = transfer_bytes(self._nic_bps, max(SHORTEST_BURST_NS, TURN_LOOKS * finest_ns))
        if not announces:  # its bursts are what looks see of them
            finest_ns = LOOK_NS
        look_ns = finest_ns if self.rhythm is None else 2 * finest_ns  # a look costs more there
        early_ns = ahead_ns if (ahead_ns := -now_ns % finest_ns) <= finest_ns // EARLY else 0  # as if it were due now
        grid_ns = 2 * look_ns  # looks at jobs fall together
        if demand.live and self.facts is not None:
            if let_go or self._planned_ns != self.measured_ns or now_ns >= self._read_ns:
                self._plan_reading(self.facts, now_ns, nic_bps, let_go, look_ns)
                self._read_ns += early_ns - (self._read_ns + early_ns) % (2 * look_ns)
            due_ns = self._read_ns
            if demand.must_see_rests and not self._crawls(2 * look_ns):  # its counters say where most of them are
                due_ns = min(due_ns, now_ns + 2 * look_ns)
        elif demand.left_to_tcp:
            due_ns = now_ns + LEFT_TO_TCP_NS
            grid_ns = LEFT_TO_TCP_NS
        else:
            grid_ns = look_ns = 2 * look_ns if demand.between_bursts else look_ns
            joined = bool(demand.sizes)
            if announces and not joined and self._marks:  # for long: it has hardly any iterations, or no two alike
                look_ns = max(look_ns, min((now_ns - self.seen_ns) // 1000, LONGEST_LEARNING_NS))
            elif announces and not joined:  # nothing can be learned of it before it marks the end of one
                look_ns = max(look_ns, min((now_ns - self.seen_ns) // 200, LEFT_TO_TCP_NS))
            due_ns = self._schedule.not_sending(look_ns, joined, self._moved_ns, now_ns, announces=announces)
        self.due_ns = due_ns + early_ns - (due_ns + early_ns) % grid_ns

    def _plan_reading(self, facts: JobFacts, now_ns: int, nic_bps: float, let_go: bool, look_ns: int) -> None:
        """When to read what it has sent, by what it had."""
        demand, limits = self.demand, self._limits.values()
        left_bytes = max(demand.until_bytes(ends) - sent for ends, sent in demand.sent(facts))
        may_bps = min(nic_bps, max((limit.ceiling_bps for limit in limits), default=nic_bps))
        largest_bytes, other_bps = max(demand.sizes.values()), may_bps if let_go else None
        self._planned_ns = self.measured_ns
        self._read_ns = self._schedule.sending(left_bytes, largest_bytes, self.polled_ns, now_ns, other_bps, look_ns)
        has_share = not limits or any(limit.rate_bps > FLOOR_BPS for limit in limits)
        if demand.must_see_rests and has_share and not self._crawls(2 * look_ns):  # others could have it while it rests
            self._read_ns = min(self._read_ns, now_ns + 2 * look_ns)

    def _of_shim(self) -> JobFacts:
        if self._counted is None:
            self._counted = self._sum_of_counters()
        before = self._unmarked.iterations  # one that marks iterations late had some before
        return self._counted._replace(iteration=self._counted.iteration + before) if before else self._counted

    def _sum_of_counters(self) -> JobFacts:
        snapshots = [view.snapshot for view in self._views]
        iteration = max([one.iteration_counter.iteration for one in snapshots if one.iteration_counter], default=0)
        expected_bytes = announced_bytes = completed_bytes = began_ns = announced_ns = completed_ns = 0
        announced = counts_early = outstanding = False
        for view in self._views:
            flows, counter = view.snapshot.flows, view.snapshot.iteration_counter
            counts_early = counts_early or any(flow.source is Source.NCCL for flow in flows)
            outstanding = outstanding or view.snapshot.expected_tx_bytes > view.snapshot.tx_bytes
            if counter is None or counter.iteration != iteration:
                continue
            announced = announced or view.iteration_enqueued_bytes > ANNOUNCING * counter.last_enqueued_bytes
            announced_bytes += view.iteration_enqueued_bytes
            completed_bytes += view.iteration_sent_bytes
            expected_bytes += counter.last_enqueued_bytes
            began_ns = max(began_ns, counter.start_ns)
            announced_ns = max([announced_ns, *[flow.enqueued_ns for flow in flows if flow.kind in OUTBOUND]])
            completed_ns = max([completed_ns, *[flow.transmit_ns for flow in flows]])
        members = max([one.world_size for one in snapshots], default=0)
        held = any(one.held_ns for one in snapshots)
        if self._marks_only(snapshots):
            return JobFacts(iteration, False, True, members, {}, {}, began_ns=began_ns, held=held)
        return JobFacts(
            iteration,
            announced=announced,
            counts_early=counts_early,
            members=members,
            sent_bytes={},
            received_bytes={},
            announced_bytes=float(announced_bytes),
            completed_bytes=float(completed_bytes),
            outstanding=outstanding,
            expected_bytes=float(expected_bytes),
            counted_bytes=WIRE_PER_PAYLOAD * sum(one.tx_bytes for one in snapshots),
            marked_bytes=WIRE_PER_PAYLOAD
            * sum(one.iteration_counter.tx_at_start for one in snapshots if one.iteration_counter),
            to_send_bytes=WIRE_PER_PAYLOAD * sum(one.expected_tx_bytes for one in snapshots),
            launched_bytes=float(sum(one.enqueued_bytes for one in snapshots)),
            began_ns=began_ns,
            announced_ns=announced_ns,
            completed_ns=completed_ns,
            held=held,
        )

    def _marks_only(self, snapshots: Sequence[ProcessSnapshot]) -> bool:
        """It ends iterations, and announces next to nothing of what its sockets send: a job over NCCL whose plugin does
        not count, because its NCCL takes none or it has another. What it launches is told from its sockets alone."""
        workers = [one for one in snapshots if one.role is not ProcessRole.SERVER]
        if not any(one.iteration_counter and one.iteration_counter.iteration for one in workers):
            return False
        announced_bytes = sum(max(one.enqueued_bytes, one.tx_bytes) for one in workers)
        return announced_bytes <= ANNOUNCING * (self._sent_bytes - self._sent_before)

    @property
    def _sent_bytes(self) -> float:
        """Ever, by all of its sockets."""
        return sum(self.facts.sent_bytes.values()) if self.facts is not None else 0.0

    def _with_unmarked(self, facts: JobFacts) -> JobFacts:
        """Iterations of a program that marks none, by the plugin's count of what it sent."""
        if facts.iteration > self._unmarked.iterations:
            return facts  # it does mark them
        self._unmarked.observe(facts.completed_bytes, facts.resting)
        return facts._replace(iteration=self._unmarked.iterations, began_ns=0)

    def _by_rhythm(self, rhythm: BurstRhythm, facts: JobFacts, now_ns: int) -> JobFacts:
        """Without the shim it is not known which flow feeds which, nor how many members there are."""
        sent_bytes, received_bytes = sum(facts.sent_bytes.values()), sum(facts.received_bytes.values())
        rhythm.observe(now_ns, sent_bytes, received_bytes, self.sockets.waiting_bytes)
        facts = facts._replace(iteration=rhythm.bursts, announced=rhythm.sending, began_ns=0)
        return facts if facts.members else facts._replace(received_bytes={})

    def _measured(self, facts: JobFacts, now_ns: int) -> JobFacts | None:
        """The same with what the sockets have carried by now; None: some have not answered yet, so whether anything has
        moved is not known."""
        before, before_ns = self.facts, self.measured_ns
        carried = self.sockets.measure(self.rhythm is not None or facts.iteration != self._feeds.iteration)
        if before is not None and self.sockets.late and now_ns - before_ns < LATE_NS:
            return None
        self.measured_ns = now_ns
        if not self.has_sockets and (counted := self._handed_over.sent_bytes(self._views)):
            carried = Carried(counted, {}, {} if facts.outstanding else dict.fromkeys(counted, 0.0))
        if before is None or carried.sent_bytes != before.sent_bytes:
            self._moved_ns = now_ns
        launched = facts.counts_early and (facts.outstanding or not facts.counted_bytes)
        fresh_bytes = sum(carried.sent_bytes.values()) - (sum(before.sent_bytes.values()) if before else 0.0)
        took_ns = SLOWER * transfer_ns(fresh_bytes, self._nic_bps) if self._nic_bps else 0  # at most
        return facts._replace(
            sent_bytes=carried.sent_bytes,
            received_bytes=carried.received_bytes,
            resting=now_ns - self._moved_ns >= (LAUNCHED_REST_NS if launched else REST_NS),
            rested=fresh_bytes > 0 and now_ns - before_ns - took_ns >= LAUNCHED_REST_NS,
            connections=self.sockets.connections,
            waiting_bytes=carried.waiting_bytes,
            moved_ns=self._moved_ns,
            seldom=not self.is_looked_at_closely,
        )


class _Feeds:
    """What was received in the last iteration, and not what prepared the first, nor control."""

    def __init__(self) -> None:
        self.iteration = -1
        self._received: Mapping[Ends, float] = {}  # when the last iteration ended,
        self._feeds: Mapping[Ends, float] = {}  # ... and in the course of it

    def update(self, facts: JobFacts, before_first: bool) -> Mapping[Ends, float]:
        if facts.iteration != self.iteration:
            received = {ends: size - self._received.get(ends, 0.0) for ends, size in facts.received_bytes.items()}
            least_bytes = LEAST_PART * max(received.values(), default=0.0)
            self._feeds = {ends: size for ends, size in received.items() if size > least_bytes}
            self._received, self.iteration = facts.received_bytes, facts.iteration
        elif before_first and not facts.announced:
            self._received = facts.received_bytes
        return self._feeds


def _counts_iterations(view: ProcessView | None) -> bool:
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

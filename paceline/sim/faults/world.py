"""One history from its first slot to its last: hosts, switches, streams, jobs and faults on one clock.

Everything that happens is an entry (time, sequence, action) in a heap, as in the reference engine, so a run depends on
its history alone. A host or switch that is down does nothing, and one that is stalled does it later.
"""

import heapq
import random
from collections.abc import Callable, Container, Sequence
from functools import partial

from paceline.flowcore.messages.events import HostEvent, Limit, SwitchEvent
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.units import NS_PER_MS
from paceline.sim.faults.history import Fault, History, Kind
from paceline.sim.faults.host_shell import PATIENCE_SLOTS, HostShell
from paceline.sim.faults.stream import Stream
from paceline.sim.faults.surroundings import Counters, Envelope
from paceline.sim.faults.switch_shell import SwitchShell
from paceline.sim.faults.training import Training
from paceline.sim.lies.telling import as_received
from paceline.wire.codec import BadMessage

SLOT_NS = 60 * NS_PER_MS
HORIZON = 10
OFFSET_NS = 10_000 * SLOT_NS  # of all clocks: a step back leads to no time before the epoch

Trace = Callable[[int, str, str], None]  # (now, host or switch, what happened)


class World:
    def __init__(self, history: History, policy: str = "paceline", trace: Trace | None = None) -> None:
        self.history, self.policy = history, policy
        self.gathers = history.seed % 2 == 1  # there are too few flows for it otherwise
        self.now_ns = 0
        self.refused_ns = -1  # when a switch last ended the stream of a host, whose report it refused
        self.topology = history.build()
        self.slots = SlotClock(SLOT_NS, HORIZON)
        self._trace = trace
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._life = dict.fromkeys((*self.topology.hosts, *self.topology.switches), 0)  # counts the daemon's starts
        self._down: dict[str, int] = {}  # crashes at work
        self._stalls: dict[str, int] = {}
        self._backlog: dict[str, list[Callable[[], None]]] = {}
        self._stalled_ns: dict[str, int] = {}  # when its stall began
        self.ended = False  # the jobs have left for good
        self.training = Training(self, history.seed)
        responsible = domains(self.topology)
        self.switches = {name: SwitchShell(self, name, responsible[name], OFFSET_NS) for name in self.topology.switches}
        self.hosts = {name: HostShell(self, name, OFFSET_NS) for name in self.topology.hosts}
        draws = random.Random(f"{history.seed}/latency")
        self.streams = {
            (lower, upper): Stream(self, lower, upper, draws.randint(200_000, 3_000_000))
            for lower, above in self.topology.parents.items()
            for upper in above
        }
        for stream in self.streams.values():
            stream.open()
        for job in history.jobs:
            self.at(round(job.start_slot * SLOT_NS), partial(self.training.start, job))
        for fault in history.faults:
            self.at(round(fault.at_slot * SLOT_NS), partial(self._begin, fault))

    # ---- Time ----

    def run_until(self, end_ns: int) -> None:
        network, heap = self.training.network, self._heap
        while True:
            change_ns = network.next_change_ns()
            next_ns = heap[0][0] if heap else end_ns
            if change_ns is not None and change_ns < next_ns:
                next_ns = change_ns
            if next_ns >= end_ns:
                self.now_ns = end_ns
                return
            self.now_ns = next_ns
            if change_ns == next_ns:
                self.training.network_changes()
            while heap and heap[0][0] <= next_ns:
                heapq.heappop(heap)[2]()

    def at(self, time_ns: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time_ns, self._sequence, action))

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.at(self.now_ns + delay_ns, action)

    # ---- Who can do something ----

    def alive(self, name: str) -> bool:
        return not self._down.get(name)

    def stalled(self, name: str) -> bool:
        return bool(self._stalls.get(name))

    def act(self, name: str, action: Callable[[], None]) -> None:
        """By this host or switch: now, after its stall, or never."""
        if self._down.get(name):
            return
        if self._stalls.get(name):
            self._backlog.setdefault(name, []).append(self._in_this_life(name, action))
        else:
            action()

    def doing(self, name: str, action: Callable[[], None]) -> Callable[[], None]:
        """For a timer of this host or switch: a daemon that was restarted has none of the old ones."""
        return partial(self.act, name, self._in_this_life(name, action))

    def _in_this_life(self, name: str, action: Callable[[], None]) -> Callable[[], None]:
        life = self._life[name]
        return lambda: action() if self._life[name] == life else None

    def note(self, name: str, event: HostEvent | SwitchEvent) -> None:
        if self._trace is not None:
            self._trace(self.now_ns, name, str(event))

    # ---- Messages ----

    def send_report(self, host: str, switch: str, report: Report) -> None:
        stream, lying = self.streams[host, switch], bool(self.hosts[host].lies)
        stream.send(host, partial(self._report_arrives, stream, report, lying))

    def _report_arrives(self, stream: Stream, report: Report, lying: bool) -> None:
        try:
            taken = self.switches[stream.upper].take_report(
                stream.lower, as_received(report, self.topology) if lying else report
            )
        except BadMessage:
            taken = False
        if not taken:  # the switch ends the stream
            self.refused_ns = self.now_ns
            stream.break_off({stream.lower: 1_000_000, stream.upper: 0})

    def send_feedback(self, switch: str, host: str, feedback: Feedback) -> None:
        offset_ns = self.switches[switch].clock.offset_ns
        stream = self.streams[host, switch]
        stream.send(switch, lambda: self.hosts[host].feedback(feedback, offset_ns))

    def send_frame(self, switch: str, neighbour: str, envelopes: Sequence[Envelope]) -> None:
        offset_ns = self.switches[switch].clock.offset_ns
        stream = self.streams.get((switch, neighbour)) or self.streams[neighbour, switch]
        stream.send(switch, lambda: self.switches[neighbour].take_frame(switch, envelopes, offset_ns))

    # ---- Jobs ----

    def tell(self, host: str, event: HostEvent) -> None:
        self.act(host, lambda: self.hosts[host].take([event]))

    def counters(self, host: str, jobs: Container[str]) -> Counters:
        return self.training.counters(host, jobs)

    def limit(self, limit: Limit) -> None:
        self.training.limit(limit)

    # ---- Streams open and break ----

    def connected(self, end: str, other: str) -> None:
        self._note(end, f"connected to {other}")
        if end in self.hosts:
            switch = self.switches[other]
            self.hosts[end].connected(switch.clock.offset_ns, switch.phase_ns(end))
        elif other in self.switches:
            self.switches[end].connected(other)

    def disconnected(self, end: str, other: str) -> None:
        self._note(end, f"lost {other}")
        if end in self.hosts:
            self.hosts[end].disconnected()
        elif other in self.switches:
            self.switches[end].disconnected(other)

    # ---- Faults ----

    def _begin(self, fault: Fault) -> None:
        self._note(fault.node, f"begins: {fault}")
        for_ns, notice_ns = round(fault.for_slots * SLOT_NS), round(fault.notice_slots * SLOT_NS)
        match fault.kind:
            case Kind.CUT:
                stream = self.streams[fault.node, fault.peer]
                stream.cuts += 1
                stream.break_off({fault.node: notice_ns, fault.peer: notice_ns // 2})
            case Kind.LATE:
                self.streams[fault.node, fault.peer].late_ns += round(fault.amount * SLOT_NS)
            case Kind.DOUBLED:
                self.hosts[fault.node].doubles += 1
            case Kind.STALL:
                self._stall(fault.node)
            case Kind.SUSPEND:
                self.hosts[fault.node].suspend(self.now_ns)
                self._stall(fault.node)
            case Kind.CRASH:
                self._crash(fault.node, notice_ns)
            case Kind.CLOCK:
                self.switches[fault.node].clock.offset_ns += round(fault.amount * SLOT_NS)
            case Kind.HANG:
                self.training.hang(fault.node, 1)
            case Kind.KILL:
                self.training.stop(fault.node)
            case Kind.LIE:
                lies = self.hosts[fault.node].lies
                lies[fault.peer] = lies.get(fault.peer, 0) + 1
        self.after(for_ns, partial(self._end, fault))

    def _end(self, fault: Fault) -> None:
        self._note(fault.node, f"ends: {fault}")
        match fault.kind:
            case Kind.CUT:
                self.streams[fault.node, fault.peer].cuts -= 1
            case Kind.LATE:
                self.streams[fault.node, fault.peer].late_ns -= round(fault.amount * SLOT_NS)
            case Kind.DOUBLED:
                self.hosts[fault.node].doubles -= 1
            case Kind.STALL:
                self._wake(fault.node)
            case Kind.SUSPEND:
                self.hosts[fault.node].resume(self.now_ns)
                self._wake(fault.node)
            case Kind.CRASH:
                self._restart(fault.node, round(fault.amount * SLOT_NS))
            case Kind.CLOCK:
                pass  # it follows its parent; the top keeps its time
            case Kind.HANG:
                self.training.hang(fault.node, -1)
            case Kind.KILL:
                job = next((job for job in self.history.jobs if job.name == fault.node), None)
                if job is not None and job.name not in self.training.running and not self.ended:
                    self.training.start(job)
            case Kind.LIE:
                lies = self.hosts[fault.node].lies
                lies[fault.peer] -= 1
                if not lies[fault.peer]:
                    del lies[fault.peer]

    def stop_all_jobs(self) -> None:
        self.ended = True
        for name in list(self.training.running):
            self.training.stop(name)

    def _stall(self, name: str) -> None:
        self._stalls[name] = self._stalls.get(name, 0) + 1
        if self._stalls[name] == 1 and name in self.hosts:
            life, began_ns = self._life[name], self.now_ns
            self._stalled_ns[name] = began_ns
            self.after(PATIENCE_SLOTS * SLOT_NS, lambda: self._lose_lease(name, life, began_ns))

    def _lose_lease(self, name: str, life: int, began_ns: int) -> None:
        if self.stalled(name) and self._life[name] == life and self._stalled_ns[name] == began_ns:
            self.hosts[name].lift_all()

    def _wake(self, name: str) -> None:
        self._stalls[name] -= 1
        if self._stalls[name] or self._down.get(name):
            return
        for action in self._backlog.pop(name, ()):
            action()
        if name in self.hosts:
            self.hosts[name].woke()

    def _crash(self, name: str, notice_ns: int) -> None:
        self._down[name] = self._down.get(name, 0) + 1
        if self._down[name] > 1:
            return
        self._life[name] += 1
        self._backlog.pop(name, None)
        if name in self.hosts:
            self.hosts[name].lift_all()
            self.training.forgotten_by(name)
        for stream in self.streams.values():
            if name in (stream.lower, stream.upper):
                stream.break_off({stream.other(name): notice_ns})
                stream.forget(name)

    def _restart(self, name: str, step_ns: int) -> None:
        self._down[name] -= 1
        if self._down[name]:
            return
        node = self.hosts.get(name) or self.switches[name]
        node.clock.offset_ns += step_ns
        node.begin()
        for stream in self.streams.values():
            if name == stream.lower:
                stream.open()

    def _note(self, name: str, what: str) -> None:
        if self._trace is not None:
            self._trace(self.now_ns, name, what)

"""A switch as switchd drives it (switchd/switch.py): routing and validation are switchd's own.

Messages to another switch wait for a moment in the queue of their next hop and are coalesced there (switchd/frames.py).
"""

from collections.abc import Iterable
from dataclasses import replace

from paceline.flowcore.messages.coalescing import coalesce
from paceline.flowcore.messages.events import Effect, Message, PeersFound, PeersLost, Send, SwitchEvent, Tick
from paceline.flowcore.messages.reports import NO_ANSWER, Feedback, Report
from paceline.flowcore.model.domain import Domain
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.flowcore.switch.gathering import Gathering
from paceline.sim.faults.node_clock import NodeClock
from paceline.sim.faults.surroundings import Envelope, Surroundings
from paceline.wire.codec import BadMessage
from switchd.routing import RoutingTable
from switchd.switch import LATE_HORIZONS
from switchd.validation import MessageValidator

FLUSH_NS = 3_000_000  # messages that come within so long leave together; switchd sends ten frames a slot
MAX_FLOWS = 512  # switchd's default


class SwitchShell:
    def __init__(self, world: Surroundings, name: str, domain: Domain, offset_ns: int) -> None:
        self.name, self.domain = name, domain
        self.clock = NodeClock(offset_ns)
        self.routes = RoutingTable(world.topology, name)
        self.refused = 0
        self.agent: SwitchAgent
        self._world = world
        self._timer = 0  # only the last one set counts
        self.begin()

    def begin(self) -> None:
        """The daemon starts."""
        world = self._world
        slot_ns = world.slots.length_ns
        gathering = Gathering(slot_ns, few_claims=0, ns_per_claim=slot_ns) if world.gathers else None
        self.agent = SwitchAgent(self.name, self.domain, world.slots, POLICIES[world.policy](), gathering)
        self._validator = MessageValidator(
            self.name,
            world.topology,
            self.domain,
            world.slots.horizon,
            MAX_FLOWS,
            self.agent.remembers,
            lambda flow: world.topology.path(flow.source, flow.target, str(flow)),
            self.agent.arbitration is not None,
        )
        self.neighbours: dict[str, list[Envelope]] = {}  # connected ones, with what waits for each
        self._lost: set[str] = set()
        self._armed_ns: int | None = None

    def now_ns(self) -> int:
        return self.clock.now_ns(self._world.now_ns)

    def phase_ns(self, host: str) -> int:
        """Evenly over the slot, a quarter of a step late, as switchd has it for small racks."""
        hosts = self._world.topology.hosts
        return (4 * hosts.index(host) + 1) * self._world.slots.length_ns // (4 * len(hosts))

    # ---- Hosts ----

    def take_report(self, host: str, report: Report) -> bool:
        """False where it is refused, which ends the host's stream."""
        horizon, slot = self._world.slots.horizon, self._world.slots.index(self.now_ns())
        if horizon < slot - report.first_slot <= LATE_HORIZONS * horizon:
            self.refused += 1
            self._world.send_feedback(self.name, host, Feedback(self.name, NO_ANSWER, slot, ()))  # which tells the time
            if not report.withdrawn:
                return True
            report = replace(report, claims=(), first_slot=slot)
        try:
            self._validator.check_host_report(host, report, slot)
        except BadMessage:
            self.refused += 1
            return False
        self.handle(report)
        return True

    # ---- Other switches ----

    def connected(self, neighbour: str) -> None:
        self.neighbours[neighbour] = []
        found = self.agent.silent - self.routes.unreachable(set(self.neighbours))
        self.handle(PeersFound(tuple(sorted(found | {neighbour}))))

    def disconnected(self, neighbour: str) -> None:
        if neighbour in self.neighbours:
            del self.neighbours[neighbour]
            self._lost |= self.routes.unreachable(set(self.neighbours)) - self.agent.silent
            self._report_lost()

    def take_frame(self, neighbour: str, envelopes: Iterable[Envelope], sender_offset_ns: int) -> None:
        if self.routes.parents and neighbour == self.routes.parents[0]:
            self.clock.follow(sender_offset_ns)
        for envelope in envelopes:
            self._take_envelope(neighbour, envelope)

    def _take_envelope(self, neighbour: str, envelope: Envelope) -> None:
        origin, to, message = envelope
        if not self.routes.on_reverse_path(neighbour, origin):
            self.refused += 1
        elif to != self.name:
            self._relay(envelope, neighbour in self.routes.parents)
        elif message is None:
            self._lost |= {origin} & self.routes.other_switches
            self._report_lost()
        else:
            try:
                self._validator.check_switch_message(origin, message, self._world.slots.index(self.now_ns()))
            except BadMessage:
                self.refused += 1
                return
            self.handle(message)

    def _relay(self, envelope: Envelope, from_above: bool) -> None:
        hop = self.routes.next_hop(envelope.to, set(self.neighbours), from_above=from_above)
        if hop is not None:
            self._put(hop, envelope)
        elif envelope.message is not None:
            hop = self.routes.next_hop(envelope.source, set(self.neighbours))
            if hop is not None:
                self._put(hop, Envelope(envelope.to, envelope.source, None))

    def _send(self, send: Send) -> None:
        hop = self.routes.next_hop(send.to, set(self.neighbours))
        if hop is not None:
            self._put(hop, Envelope(self.name, send.to, send.message))
        elif send.to not in self.agent.silent:
            self._lost.add(send.to)

    def _put(self, hop: str, envelope: Envelope) -> None:
        waiting = self.neighbours[hop]
        waiting.append(envelope)
        if len(waiting) == 1:
            self._world.after(FLUSH_NS, self._world.doing(self.name, lambda: self._flush(hop, waiting)))

    def _flush(self, hop: str, waiting: list[Envelope]) -> None:
        if self.neighbours.get(hop) is not waiting:
            return  # the stream has ended
        envelopes = [one for one in waiting if one.source != self.name]
        own: dict[str, list[Message]] = {}
        for one in waiting:
            if one.source == self.name and one.message is not None:
                own.setdefault(one.to, []).append(one.message)
        envelopes += [Envelope(self.name, to, one) for to, messages in own.items() for one in coalesce(messages)]
        waiting.clear()
        self._world.send_frame(self.name, hop, envelopes)

    def _report_lost(self) -> None:
        if self._lost:
            lost, self._lost = tuple(sorted(self._lost)), set()
            self.handle(PeersLost(lost))

    # ---- The agent ----

    def handle(self, event: SwitchEvent) -> None:
        effects: list[Effect] = self.agent.handle(event, self.now_ns())
        self._world.note(self.name, event)
        for effect in effects:
            if isinstance(effect, Send):
                if effect.to not in self.domain.hosts:
                    self._send(effect)
                elif isinstance(effect.message, Feedback):
                    self._world.send_feedback(self.name, effect.to, effect.message)
        self.arm()
        self._report_lost()

    def arm(self) -> None:
        deadline_ns = self.agent.next_deadline()
        if deadline_ns == self._armed_ns:
            return
        self._armed_ns = deadline_ns
        self._timer += 1
        if deadline_ns is not None:
            timer = self._timer
            self._world.after(
                max(0, deadline_ns - self.now_ns()), self._world.doing(self.name, lambda: self._fired(timer))
            )

    def _fired(self, timer: int) -> None:
        if timer == self._timer:
            self._armed_ns = None
            self.handle(Tick())

"""The switch itself: feeds the SwitchAgent, performs its effects, re-arms its timer. No gRPC here.

    from hosts      report(host, wire)        → Feedback into the host's outbox, or a waiting call
    from switches   letter(neighbour, wire)   → the agent's if it is for us, else the next outbox on its way
    by the clock    Tick                      → whatever the agent's deadline was for

Everything runs in one event loop, and nothing between taking a message and filling the outboxes awaits: a report
meets the table as the one before it left it, so accepted plans never exceed a link under any interleaving.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from paceline.flowcore.messages.events import PeersFound, PeersLost, Send, SwitchEvent, Tick
from paceline.flowcore.messages.reports import NO_ANSWER, Feedback
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.service.instruments import SwitchInstruments
from paceline.service.log_rate_limit import LogRateLimit
from paceline.service.metrics import new_registry
from paceline.service.shared_clock import SharedClock
from paceline.service.timer import Timer
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import BadMessage, FlowPaths, feedback_to_wire, message_from_envelope, report_from_wire
from switchd.clock_watch import ClockWatch
from switchd.config import SwitchConfig
from switchd.frames import Letter
from switchd.outbox import Outbox
from switchd.routes import LetterRoutes
from switchd.validation import Admission

_log = logging.getLogger(__name__)

# Answers to a few slots; a host this far behind decides by itself by now.
HOST_OUTBOX = 64
# A report later than its own plan, up to so many horizons, was held up somewhere, perhaps by us. Nothing in it
# is of use any more: to leave it is how a switch with too much to do catches up. What is older has another clock.
LATE_HORIZONS = 10
# Groups in which the hosts of a rack report, if they are more than a few. Each has frames to other switches and back,
# which cost what they cost however many hosts they are about. A group reports in one instant: a frame leaves as soon
# as there is something for it, and takes along only what is there by then.
FEW_HOSTS = 3
BUNCHES = 2
# A ToR's hosts may all ask in the same instant.
SWITCH_OUTBOX = 4096


@dataclass(slots=True)
class HostStream:
    """One connected host."""

    watch: ClockWatch
    outbox: Outbox[pb.Feedback] = field(default_factory=lambda: Outbox(HOST_OUTBOX))
    heard: pb.ClockEcho = field(default_factory=pb.ClockEcho)  # when its last message left and arrived
    asked: dict[int, int] = field(default_factory=dict)  # report number: when it came, for the merge latency


class Switch:
    def __init__(self, config: SwitchConfig) -> None:
        self.config = config
        self.name = config.name
        self.clock = SharedClock()
        self.slots = config.slots.clock()
        self.registry = new_registry()
        self.instruments = SwitchInstruments(self.registry)
        self.refused: Counter[str] = Counter()
        self.messages = 0
        self.plans_refused = 0
        self._proposed: defaultdict[str, set[FlowId]] = defaultdict(set)  # a host's flows whose plan is undecided
        self.hosts: dict[str, HostStream] = {}
        self.neighbours: dict[str, Outbox[Letter]] = {}  # connected switches, above and below
        self.calls: dict[tuple[str, int], asyncio.Future[pb.Feedback]] = {}  # unary calls that wait
        domain = domains(config.topology)[config.name]
        self.own_hosts = domain.hosts
        self.agent = SwitchAgent(config.name, domain, self.slots, POLICIES[config.policy]())
        self.routes = LetterRoutes(config.topology, config.name)
        self.phases_ns = _phases(config.topology, config.name, self.slots.length_ns)
        self._paths = FlowPaths(config.topology)
        self._admission = Admission(
            config.name,
            config.topology,
            domain,
            config.slots.horizon,
            config.max_flows_per_host,
            self.agent.remembers,
            self._paths.path,
            self.agent.arbitration is not None,
        )
        self._log_limit = LogRateLimit()
        self._lost: set[str] = set()
        self._timer: Timer | None = None  # once there is something to ring for, and an event loop
        self._armed_ns: int | None = None
        for link in self.agent.table.capacity_bps:
            self.instruments.link_load.labels(link).set_function(lambda link=link: self._load_ratio(link))
        self.instruments.hosts.set_function(lambda: len(self.hosts))
        self.instruments.contested_links.set_function(self._contested_links)
        self.instruments.stale_parents.set_function(
            lambda: sum(one not in self.neighbours or one in self.agent.silent for one in self.routes.parents)
        )

    # ---- Hosts ----

    def host_joins(self, host: str) -> HostStream:
        if (old := self.hosts.get(host)) is not None:
            old.outbox.close()  # the host was restarted before we noticed
        stream = self.hosts[host] = HostStream(ClockWatch(self.slots.length_ns // 10))
        self._log_limit.log(_log, logging.INFO, ("connected", host), "host connected", extra={"host": host})
        return stream

    def host_leaves(self, host: str, stream: HostStream) -> None:
        """Its plans stay until their lease ends: it may be back before."""
        if self.hosts.get(host) is stream:
            del self.hosts[host]
            self._log_limit.log(_log, logging.INFO, ("gone", host), "host disconnected", extra={"host": host})

    def report(self, host: str, wire: pb.Report) -> None:
        """A report from a host's stream or call; raises BadMessage and has then changed nothing.

        One that comes too late is left without an answer.
        """
        now_ns = self.clock.now_ns()
        behind_slots = self.slots.index(now_ns) - wire.first_slot
        if self.slots.horizon < behind_slots <= LATE_HORIZONS * self.slots.horizon:
            self.count_bad("late")
            return
        report = report_from_wire(wire, self._paths)
        self._admission.check_report(host, report, self.slots.index(now_ns))
        stream = self.hosts.get(host)
        if stream is not None and report.claims:
            if len(stream.asked) >= HOST_OUTBOX:
                stream.asked.clear()
            stream.asked[report.number] = now_ns
        proposed = self._proposed[host]
        proposed.difference_update(flow for flow, _ in report.withdrawn)
        proposed.update(claim.flow for claim in report.claims if claim.plan_bps)
        self.take(report)

    def _answer(self, host: str, feedback: Feedback) -> None:
        # A refused flow stays so until its next plan, and is told so each time: the plan was refused once.
        proposed = self._proposed[host]
        refused = sum(not grant.accepted and grant.flow in proposed for grant in feedback.grants)
        proposed.difference_update(grant.flow for grant in feedback.grants)
        self.plans_refused += refused
        if refused:
            self.instruments.refusals.labels("capacity").inc(refused)
        wire = feedback_to_wire(feedback)
        call = self.calls.pop((host, feedback.answers), None)
        if call is not None:
            if not call.done():
                call.set_result(wire)
            return
        stream = self.hosts.get(host)
        if stream is not None:
            if feedback.answers != NO_ANSWER:
                asked_ns = stream.asked.pop(feedback.answers, None)
                if asked_ns is not None:
                    self.instruments.merge.observe((self.clock.now_ns() - asked_ns) / 1e9)
            stream.outbox.put(wire)

    # ---- Other switches ----

    def neighbour_joins(self, name: str) -> Outbox[Letter]:
        if (old := self.neighbours.get(name)) is not None:
            old.close()  # it was restarted before we noticed
        outbox = self.neighbours[name] = Outbox(SWITCH_OUTBOX)
        _log.info("switch connected", extra={"switch": name})
        found = self.agent.silent - self.routes.unreachable(set(self.neighbours))
        self.take(PeersFound(tuple(sorted(found | {name}))))  # also if nobody has missed it yet
        return outbox

    def neighbour_leaves(self, name: str, outbox: Outbox[Letter]) -> None:
        if self.neighbours.get(name) is outbox:
            del self.neighbours[name]
            _log.warning("switch lost", extra={"switch": name})
            self._lost |= self.routes.unreachable(set(self.neighbours)) - self.agent.silent
            self._tell_lost()

    def letter(self, neighbour: str, letter: pb.Envelope) -> None:
        """A letter from a neighbour: for us, or to hand on. Raises BadMessage; who relayed it may be innocent."""
        origin = letter.source
        from_above = neighbour in self.routes.parents
        if not self.routes.may_bring(neighbour, origin):
            raise BadMessage("identity", f"a letter from {origin[:60]!r} came by way of {neighbour}")
        if letter.to != self.name:
            self._hand_on(letter, from_above)
        elif letter.WhichOneof("body") == "unreachable":
            self._lost |= {origin} & self.routes.others
            self._tell_lost()
        else:
            message = message_from_envelope(letter, self._paths)
            self._admission.check_letter(origin, message, self.slots.index(self.clock.now_ns()))
            self.take(message)

    def _hand_on(self, letter: pb.Envelope, from_above: bool) -> None:
        hop = self.routes.next_hop(letter.to, set(self.neighbours), from_above=from_above)
        if hop is not None:
            self.neighbours[hop].put(letter)
        elif letter.WhichOneof("body") != "unreachable":
            back = pb.Envelope(source=letter.to, to=letter.source, unreachable=True)
            hop = self.routes.next_hop(back.to, set(self.neighbours))
            if hop is not None:
                self.neighbours[hop].put(back)

    def _post(self, send: Send) -> None:
        hop = self.routes.next_hop(send.to, set(self.neighbours))
        if hop is not None:
            self.neighbours[hop].put(send)
        elif send.to not in self.agent.silent:
            self._lost.add(send.to)

    def _tell_lost(self) -> None:
        if self._lost:
            lost, self._lost = tuple(sorted(self._lost)), set()
            self.take(PeersLost(lost))

    # ---- The agent ----

    def take(self, event: SwitchEvent) -> None:
        now_ns = self.clock.now_ns()
        self.messages += 1
        self.instruments.messages.inc()
        for effect in self.agent.handle(event, now_ns):
            if isinstance(effect, Send):
                if effect.to in self.own_hosts:
                    if isinstance(effect.message, Feedback):
                        self._answer(effect.to, effect.message)
                else:
                    self._post(effect)
        self._arm(now_ns)
        self._tell_lost()

    def _arm(self, now_ns: int) -> None:
        deadline_ns = self.agent.next_deadline()
        if deadline_ns is not None and deadline_ns != self._armed_ns:
            self._timer = self._timer or Timer(self._ring)
            self._timer.set(deadline_ns - now_ns)
        self._armed_ns = deadline_ns

    def _ring(self) -> None:
        armed_ns, self._armed_ns = self._armed_ns, None
        if armed_ns is not None:  # else nothing is left to ring for
            self.take(Tick())  # also if our clock was set back meanwhile: the agent has to know

    def overdue_ns(self) -> int:
        """For how long the agent has been waiting for a tick that has not come."""
        deadline_ns = self.agent.next_deadline()
        return 0 if deadline_ns is None else max(0, self.clock.now_ns() - deadline_ns)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def count_bad(self, reason: str) -> None:
        self.refused[reason] += 1
        self.instruments.bad_peers.labels(reason).inc()

    # ---- For people ----

    def _load_ratio(self, link: str) -> float:
        table = self.agent.table
        return table.load_bps(link, self.slots.index(self.clock.now_ns())) / table.capacity_bps[link]

    def _contested_links(self) -> int:
        arbitration = self.agent.arbitration
        return 0 if arbitration is None or arbitration.empty else len(arbitration.shared_links)

    def snapshot(self, links: tuple[str, ...]) -> pb.TableSnapshot:
        table = self.agent.table
        slot = self.slots.index(self.clock.now_ns())
        flows = table.flows_per_link()
        return pb.TableSnapshot(
            name=self.name,
            slot=slot,
            slot_length_ns=self.slots.length_ns,
            link=links,
            capacity_bps=[table.capacity_bps[link] for link in links],
            horizon=self.slots.horizon,
            load_bps=[table.load_bps(link, slot + k) for link in links for k in range(self.slots.horizon)],
            flows=[flows.get(link, 0) for link in links],
            host=sorted(self.hosts),
            silent=sorted(self.agent.silent),
            refused=self.refused,
            messages=self.messages,
            plans_refused=self.plans_refused,
        )


def _phases(topology: Topology, switch: str, length_ns: int) -> dict[str, int]:
    """When in a slot each host reports: evenly over the slot, so that no two meet at the switch, and the racks one
    after the other, so that they do not meet at the switches above either. The hosts of a large rack come in bunches:
    what they have to say to other switches then goes together. All begin a quarter of a step late: at the beginning
    and in the middle of a slot the switches themselves have something to do (SETTLES_PER_SLOT)."""
    racks = list(dict.fromkeys(topology.switch_of[host] for host in topology.hosts))
    own = [host for host in topology.hosts if topology.switch_of[host] == switch]
    bunches = BUNCHES if len(own) > FEW_HOSTS and switch in topology.parents else len(own)
    steps = len(racks) * bunches
    turns = {host: number % bunches * len(racks) + racks.index(switch) for number, host in enumerate(own)}
    return {host: (4 * turn + 1) * length_ns // (4 * steps) for host, turn in turns.items()}

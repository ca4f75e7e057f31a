"""The switch itself: feeds the SwitchAgent, performs its effects, re-arms its timer. No gRPC here.

    from hosts      take_report(host, wire)            → Feedback into the host's outbox, or to a pending call
    from switches   take_envelope(neighbour, wire)     → the agent if it is for this switch, else the next hop's outbox
    by the timer    Tick                               → what the agent's deadline was for

Everything runs in one event loop, and nothing between taking a message and filling the outboxes awaits: each report
finds the table as the report before left it, so accepted plans never exceed a link under any interleaving.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from paceline.flowcore.messages.events import Message, PeersFound, PeersLost, Send, SwitchEvent, Tick
from paceline.flowcore.messages.reports import NO_ANSWER, Feedback, Report
from paceline.flowcore.model.job_names import log_fields, name_of, readable
from paceline.flowcore.model.patterns import FlowId
from paceline.service.instruments import SwitchInstruments
from paceline.service.log_rate_limit import LogRateLimit
from paceline.service.metrics import new_registry
from paceline.service.shared_clock import SharedClock
from paceline.service.timer import Timer
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import FEEDBACK, REPORT, BadMessage, BadRows, message_from_envelope, sift_envelope
from paceline.wire.host_state import as_many_as_fit
from switchd.clock_watch import ClockWatch
from switchd.config import SwitchConfig
from switchd.frames import Outgoing
from switchd.outbox import Outbox
from switchd.split_jobs import split_jobs
from switchd.topology.place import Place

_log = logging.getLogger(__name__)

# Answers to the reports of a few slots; a host that is further behind decides without its switch by then.
HOST_OUTBOX = 64
# A report that arrives after the end of its own plan, up to so many horizons, was delayed, perhaps by this switch.
# None of its claims is of use any more: dropping them is how a switch with too much to do catches up. An older report
# comes from another clock.
LATE_HORIZONS = 10
# All hosts of a ToR may report in the same instant.
SWITCH_OUTBOX = 4096


@dataclass(slots=True)
class HostSession:
    """What the switch keeps for a connected host, for as long as its stream is open."""

    clock_watch: ClockWatch
    outbox: Outbox[pb.Feedback] = field(default_factory=lambda: Outbox(HOST_OUTBOX))
    clock_echo: pb.ClockEcho = field(default_factory=pb.ClockEcho)  # when its last message left and arrived
    received_ns: dict[int, int] = field(default_factory=dict)  # by report number, for the answer latency
    state: pb.HostState | None = None  # what it told of itself last


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
        self.hosts: dict[str, HostSession] = {}
        self.neighbours: dict[str, Outbox[Outgoing]] = {}  # connected switches, above and below
        self.calls: dict[tuple[str, int], asyncio.Future[pb.Feedback]] = {}  # pending unary calls
        self._links: set[str] = set()  # with a gauge
        self._next: Place | None = None  # prepared to take over
        self._log_limit = LogRateLimit()
        self.stopping = False
        self._lost: set[str] = set()
        self._timer: Timer | None = None  # made with the first deadline, which comes with an event loop
        self._armed_ns: int | None = None
        self._occupy(Place(config, self.slots))
        self.instruments.hosts.set_function(lambda: len(self.hosts))
        self.instruments.shared_links.set_function(self._shared_links)
        self.instruments.split_jobs.set_function(lambda: len({name for pair in self.split_jobs() for name in pair}))
        self.instruments.silent_parents.set_function(
            lambda: sum(one not in self.neighbours or one in self.agent.silent for one in self.routes.parents)
        )

    # ---- Its place in the topology ----

    def _occupy(self, place: Place) -> None:
        self._place, self.config = place, place.config
        self.agent, self.routes, self.own_hosts = place.agent, place.routes, place.own_hosts
        links = set(self.agent.table.capacity_bps)
        for link in self._links - links:
            self.instruments.link_load.remove(link)
            self.instruments.link_cross_traffic.remove(link)
        for link in links - self._links:
            self.instruments.link_load.labels(link).set_function(partial(self._load_ratio, link))
            self.instruments.link_cross_traffic.labels(link).set_function(partial(self._others_ratio, link))
        self._links = links

    def prepare(self, place: Place) -> None:
        """From now on it hears what this switch hears, until it takes over."""
        place.begin(self._place, self.clock.now_ns())
        self._next = place

    def take_over(self) -> None:
        """The prepared place is this switch's now. Streams stay open, but for hosts and switches that it has not."""
        place, before, self._next = self._next, self._place, None
        if place is None:
            return
        self._occupy(place)
        for send in place.taking_over(before):
            self._send(send)
        self.handle(Tick())
        for host in self.hosts.keys() - self.own_hosts:
            self.hosts[host].outbox.close()
        for name in self.neighbours.keys() - {*self.routes.children, *self.routes.parents}:
            self.neighbours[name].close()

    @property
    def phases_ns(self) -> dict[str, int]:
        return self._place.phases_ns

    # ---- Hosts ----

    def host_connected(self, host: str) -> HostSession:
        if (old := self.hosts.get(host)) is not None:
            old.outbox.close()  # the host was restarted before its old stream ended
        session = self.hosts[host] = HostSession(ClockWatch(self.slots.length_ns // 10))
        self._log_limit.log(_log, logging.INFO, ("connected", host), "host connected", extra={"host": host})
        return session

    def host_disconnected(self, host: str, session: HostSession) -> None:
        """The host's plans stay until their lease ends: it may be back before."""
        if self.hosts.get(host) is session:
            del self.hosts[host]
            self._log_limit.log(_log, logging.INFO, ("gone", host), "host disconnected", extra={"host": host})

    def take_report(self, host: str, wire: pb.Report) -> None:
        """A report from a host's stream or call; raises BadMessage and has then changed nothing. Bad claims are taken
        out, and the rest is heard: a host speaks for many jobs.

        One that comes too late is answered with the time: a host that was suspended would stay late for ever. Of
        it only withdrawals count, which have no date.
        """
        now_ns = self.clock.now_ns()
        slot = self.slots.index(now_ns)
        session = self.hosts.get(host)
        if self.slots.horizon < slot - wire.first_slot <= LATE_HORIZONS * self.slots.horizon:
            self.count_refusal("late")
            if session is not None:
                session.outbox.put(FEEDBACK.to_wire(Feedback(self.name, NO_ANSWER, slot, ())))
            if not wire.withdrawn:
                return
            wire.ClearField("claims")
            wire.first_slot = slot
        try:
            report = REPORT.from_wire(wire, self._place.paths)
            self._place.validator.check_host_report(host, report, slot)
        except BadMessage:
            report = self._sifted(host, wire, slot)
            if not report.claims and session is not None:  # or the host would take the switch for silent
                session.outbox.put(FEEDBACK.to_wire(Feedback(self.name, report.number, slot, ())))
        if session is not None and report.claims:
            if len(session.received_ns) >= HOST_OUTBOX:
                session.received_ns.clear()
            session.received_ns[report.number] = now_ns
        proposed = self._proposed[host]
        proposed.difference_update(gone.flow for gone in report.withdrawn)
        proposed.update(claim.flow for claim in report.claims if claim.plan_bps)
        self.handle(report)

    def _sifted(self, host: str, wire: pb.Report, slot: int) -> Report:
        """Without the claims that are refused; raises BadMessage where more than those is wrong."""
        report, bad = REPORT.sift(wire, self._place.paths)
        report, over = self._place.validator.sift(host, report)
        self._place.validator.check_host_report(host, report, slot)
        refused = [*bad, *over]
        if host not in self.hosts and not report.claims:
            raise refused[0]  # of a call, which is answered with its status
        for error in refused:
            self.count_refusal(error.reason)
            key, extra = ("claims", host, error.reason), {"host": host}
            self._log_limit.log(_log, logging.WARNING, key, "refused claims of a host: %s", error, extra=extra)
        return report

    def _count_answer(self, host: str, feedback: Feedback) -> None:
        # Every answer repeats that a flow's plan was refused, until its next plan; the refusal counts once.
        proposed = self._proposed[host]
        refused = sum(not grant.accepted and grant.flow in proposed for grant in feedback.grants)
        proposed.difference_update(grant.flow for grant in feedback.grants)
        self.plans_refused += refused
        if refused:
            self.instruments.refusals.labels("capacity").inc(refused)
        session = self.hosts.get(host)
        if session is not None and feedback.answers != NO_ANSWER:
            received_ns = session.received_ns.pop(feedback.answers, None)
            if received_ns is not None:
                self.instruments.answer_latency.observe((self.clock.now_ns() - received_ns) / 1e9)

    # ---- Other switches ----

    def neighbour_connected(self, name: str) -> Outbox[Outgoing]:
        if (old := self.neighbours.get(name)) is not None:
            old.close()  # the neighbour was restarted before its old stream ended
        outbox = self.neighbours[name] = Outbox(SWITCH_OUTBOX)
        _log.info("switch connected", extra={"switch": name})
        found = self.agent.silent - self.routes.unreachable(set(self.neighbours))
        self.handle(PeersFound(tuple(sorted(found | {name}))))  # also if the agent has not missed it yet
        return outbox

    def neighbour_disconnected(self, name: str, outbox: Outbox[Outgoing]) -> None:
        if self.neighbours.get(name) is outbox:
            del self.neighbours[name]
            level = logging.INFO if self.stopping else logging.WARNING  # an orderly stop is no loss
            _log.log(level, "switch lost", extra={"switch": name})
            self._lost |= self.routes.unreachable(set(self.neighbours)) - self.agent.silent
            self._report_lost()

    def take_envelope(self, neighbour: str, envelope: pb.Envelope) -> None:
        """A neighbour's envelope, for this switch or to relay. Raises BadMessage; the fault may be the origin's."""
        origin = envelope.source
        from_above = neighbour in self.routes.parents
        if not self.routes.on_reverse_path(neighbour, origin):
            raise BadMessage("identity", f"{neighbour} relayed a message from {origin[:60]!r}, which is not behind it")
        if envelope.to != self.name:
            self._relay(envelope, from_above)
        elif envelope.WhichOneof("body") == "unreachable":
            self._lost |= {origin} & self.routes.other_switches
            self._report_lost()
        else:
            message, bad = self._message_in(envelope)
            slot = self.slots.index(self.clock.now_ns())
            self._place.validator.check_switch_message(origin, message, slot)
            message, over = self._place.validator.within_limits(message)
            self._note_refused(origin, [*bad, *over])
            self.handle(message)
            if isinstance(message, Report) and not message.claims and (bad or over):
                # Or it would take this one for silent.
                self._send(Send(origin, Feedback(self.name, message.number, slot, ())))

    def _message_in(self, envelope: pb.Envelope) -> tuple[Message, Sequence[BadMessage]]:
        """Without claims for hosts that only the sender's topology has, and the like: the rest is heard."""
        try:
            return message_from_envelope(envelope, self._place.paths), ()
        except BadRows:
            return sift_envelope(envelope, self._place.paths)

    def _note_refused(self, switch: str, refused: Iterable[BadMessage]) -> None:
        for error in refused:
            self.count_refusal(error.reason)
            key, said = ("claims", switch, error.reason), "refused claims of a switch: %s"
            self._log_limit.log(_log, logging.WARNING, key, said, error, extra={"switch": switch})

    def _relay(self, envelope: pb.Envelope, from_above: bool) -> None:
        hop = self.routes.next_hop(envelope.to, set(self.neighbours), from_above=from_above)
        if hop is not None:
            self.neighbours[hop].put(envelope)
        elif envelope.WhichOneof("body") != "unreachable":
            back = pb.Envelope(source=envelope.to, to=envelope.source, unreachable=True)
            hop = self.routes.next_hop(back.to, set(self.neighbours))
            if hop is not None:
                self.neighbours[hop].put(back)

    def _send(self, send: Send) -> None:
        hop = self.routes.next_hop(send.to, set(self.neighbours))
        if hop is not None:
            self.neighbours[hop].put(send)
        elif send.to not in self.agent.silent:
            self._lost.add(send.to)

    def _report_lost(self) -> None:
        if self._lost:
            lost, self._lost = tuple(sorted(self._lost)), set()
            self.handle(PeersLost(lost))

    # ---- The agent ----

    def handle(self, event: SwitchEvent) -> None:
        """Feeds the agent, performs its effects, re-arms the timer."""
        now_ns = self.clock.now_ns()
        self.messages += 1
        self.instruments.messages.inc()
        if self._next is not None:
            self._next.hear(event, now_ns)
        for effect in self.agent.handle(event, now_ns):
            if not isinstance(effect, Send):
                continue
            host, message = effect.to, effect.message
            if host not in self.own_hosts:
                self._send(effect)
            elif isinstance(message, Feedback):
                wire = FEEDBACK.to_wire(message)
                self._count_answer(host, message)
                if (call := self.calls.pop((host, message.answers), None)) is not None:
                    if not call.done():
                        call.set_result(wire)
                elif (session := self.hosts.get(host)) is not None:
                    session.outbox.put(wire)
        self._arm(now_ns)
        self._report_lost()

    def _arm(self, now_ns: int) -> None:
        deadline_ns = self.agent.next_deadline()
        if deadline_ns is not None and deadline_ns != self._armed_ns:
            self._timer = self._timer or Timer(self._timer_fired)
            self._timer.set(deadline_ns - now_ns)
        self._armed_ns = deadline_ns

    def _timer_fired(self) -> None:
        armed_ns, self._armed_ns = self._armed_ns, None
        if armed_ns is not None:  # else the deadline has gone meanwhile
            self.handle(Tick())  # also if the clock was set back meanwhile: the agent has to know

    def overdue_ns(self) -> int:
        """For how long the agent's deadline has passed without a tick."""
        deadline_ns = self.agent.next_deadline()
        return 0 if deadline_ns is None else max(0, self.clock.now_ns() - deadline_ns)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def count_refusal(self, reason: str) -> None:
        self.refused[reason] += 1
        self.instruments.bad_peers.labels(reason).inc()

    # ---- For operators ----

    def _load_ratio(self, link: str) -> float:
        table = self.agent.table
        return table.load_bps(link, self.slots.index(self.clock.now_ns())) / table.capacity_bps[link]

    def _others_ratio(self, link: str) -> float:
        table = self.agent.table
        return table.others_bps(link) / table.capacity_bps[link]

    def _shared_links(self) -> int:
        arbitration = self.agent.arbitration
        return 0 if arbitration is None or arbitration.empty else len(arbitration.shared_links.now)

    def split_jobs(self) -> list[tuple[str, str]]:
        """Pairs of names that look like one job."""
        return split_jobs(self.agent.remembered_flows(), self.hosts.keys())

    def warn_of_split_jobs(self) -> None:
        for one, other in self.split_jobs():
            message = "%s and %s look like one job under two names: give both one --job name"
            names, extra = (name_of(one), name_of(other)), log_fields(one)
            self._log_limit.log(_log, logging.WARNING, ("split", one, other), message, *names, extra=extra)

    def snapshot(self, links: tuple[str, ...], host_states: bool = False) -> pb.TableSnapshot:
        table = self.agent.table
        slot = self.slots.index(self.clock.now_ns())
        flows = table.flows_per_link()
        loads = self.agent.job_loads(frozenset(links), slot)
        link_at = {link: number for number, link in enumerate(links)}
        job_at = {job: number for number, job in enumerate(sorted(loads.urgency))}
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
            job=readable(job_at).values(),
            urgency=[loads.urgency[job] for job in job_at],
            part_link=[link_at[link] for link, _ in loads.planned_bps],
            part_job=[job_at[job] for _, job in loads.planned_bps],
            part_bps=loads.planned_bps.values(),
            part_share_bps=loads.share_bps.values(),
            policy=self.config.policy,
            own_host=sorted(self.own_hosts),
            others_bps=[table.others_bps(link) for link in links] if table.has_others else (),
            host_state=as_many_as_fit(one.state for one in self.hosts.values() if host_states and one.state),
        )

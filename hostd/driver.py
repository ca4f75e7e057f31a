"""From what happened to what is done about it: HostAgent decides, its driver performs.

    what the jobs concerned have sent ──▶ ┌───────────┐ ──Limit────▶ enforcer
    what happened ──────────────────────▶ │ HostAgent │ ──Send─────▶ switch
                                          └───────────┘

Law: the effects of everything that happened at one time are performed together, so a flow gets its last rate only and
the switch hears of all flows at once; and the enforcer holds the sockets of exactly the flows that the agent knows.
The journal is for people to look at later: a full disk ends it, and nothing else.
"""

import logging
import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import TextIO

from hostd.enforce.enforcer import Enforcer
from hostd.introspect.durations import Durations
from hostd.monitor.monitor import Monitor
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.coalescing import coalesce
from paceline.flowcore.messages.events import ClockSet, Effect, HostEvent, JobJoined, JobLeft, Limit, Message, Send
from paceline.flowcore.messages.journal import Entry, encode
from paceline.flowcore.messages.reports import Report
from paceline.flowcore.model.patterns import FlowId
from paceline.service.instruments import HostInstruments
from paceline.service.shared_clock import SharedClock

_log = logging.getLogger(__name__)


class AgentDriver:
    """`send` takes a report for the switch; None: there is no switch."""

    def __init__(
        self,
        agent: HostAgent,
        clock: SharedClock,
        monitor: Monitor,
        enforcer: Enforcer,
        instruments: HostInstruments,
        send: Callable[[Report], None] | None,
        journal: TextIO | None,
    ) -> None:
        self.missed_slots = 0
        self.durations = Durations()
        self._agent, self._clock, self._monitor, self._enforcer = agent, clock, monitor, enforcer
        self._instruments, self._send, self._journal = instruments, send, journal
        self._decided_slot = -1  # in which the last decision fell ...
        self._judged_slot = -1  # ... and up to which slots without one have been counted

    def take(self, events: Iterable[HostEvent], concerned: Container[str] = ()) -> None:
        """What the jobs concerned have sent, then what happened, then the effects in one go."""
        began_s = time.perf_counter()
        now_ns = self._clock.now_ns()
        slot = self._agent.clock.index(now_ns)
        self.judge(slot)
        self._decided_slot = slot
        effects: list[Effect] = []
        for event in (*self._progress(concerned), *events):
            before = set(self._agent.flows) if isinstance(event, JobJoined | JobLeft) else None
            done = self._agent.handle(event, now_ns)
            if self._journal is not None:
                self._write_down(self._journal, Entry(now_ns, self._agent.name, event, tuple(done)))
            effects += done
            if before is not None:
                self._attach(before)
        if effects:
            self._perform(effects)
        took_s = time.perf_counter() - began_s
        self.durations.note(took_s)
        self._instruments.decision.observe(took_s)

    def clock_set(self, by_ns: int) -> None:
        """No slot was missed in between, and none is decided already."""
        self._decided_slot = self._judged_slot = self._agent.clock.index(self._clock.now_ns()) - 1
        self.take([ClockSet(by_ns)])

    def judge(self, slot: int) -> None:
        """Counts the slots before this one that passed without a decision while flows had bytes to send."""
        missed = slot - 1 - max(self._decided_slot, self._judged_slot)
        self._judged_slot = max(self._judged_slot, slot - 1)
        if missed > 0 and self._agent.policy.paced and self._agent.live_flows():
            self.missed_slots += missed
            self._instruments.missed_slots.inc(missed)

    def _progress(self, concerned: Container[str]) -> list[HostEvent]:
        if not concerned or not self._agent.policy.paced:
            return []
        progress = self._monitor.progress(self._clock.own_ns(), concerned)
        return [progress] if progress.sent_bytes else []

    def _write_down(self, journal: TextIO, entry: Entry) -> None:
        try:
            journal.write(encode(entry) + "\n")
            journal.flush()  # nothing is left to be written at the end, when an error would have no effect
        except OSError as error:
            _log.error("no journal from now on: %s", error)
            self._journal = None
            with suppress(OSError):  # it tries once more
                journal.close()

    def _attach(self, before: set[FlowId]) -> None:
        for flow in before - self._agent.flows.keys():
            self._enforcer.detach(flow)
            self._instruments.forget_flow(flow.job, str(flow))
        for flow in self._agent.flows.keys() - before:
            self._enforcer.attach(flow, self._monitor.sockets_of(flow))

    def _perform(self, effects: Iterable[Effect]) -> None:
        limits: dict[FlowId, Limit] = {}
        reports: list[Message] = []
        for effect in effects:
            match effect:
                case Limit(flow):
                    limits[flow] = effect
                case Send(_, message):
                    reports.append(message)
        self._report(reports)
        present = [limit for flow, limit in limits.items() if flow in self._agent.flows]
        if present:
            self._enforcer.apply(present)
            self._monitor.limited({limit.flow: limit.ceiling_bps for limit in present}, self._clock.own_ns())

    def _report(self, reports: Iterable[Message]) -> None:
        """All in one: a switch that has heard of half of a job's flows gives them everything, and the rest wait."""
        for report in coalesce(reports):
            if isinstance(report, Report) and self._send is not None:
                self._send(report)

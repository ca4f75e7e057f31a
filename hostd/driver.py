"""From what happened to what is done about it: HostAgent decides, its driver performs.

    what the jobs concerned have sent ──▶ ┌───────────┐ ──Limit────▶ enforcer
    what happened ──────────────────────▶ │ HostAgent │ ──Send─────▶ switch
                                          └───────────┘

Law: everything that happened at one time is one event of the agent, which joins what it does about it; the switch gets
that less what it would refuse (report_filter.py); and the enforcer holds the sockets of exactly the flows that the
agent knows.
The journal is for people to look at later: a full disk ends it, and nothing else.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from hostd.enforce.enforcer import Enforcer
from hostd.introspect.durations import Durations
from hostd.monitor.monitor import Monitor
from hostd.report_filter import ReportFilter, unsendable
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.host.joining import together
from paceline.flowcore.messages.events import (
    ClockSet,
    Effect,
    HostEvent,
    JobJoined,
    JobLeft,
    Limit,
    OthersSend,
    Send,
    SwitchLost,
    Tick,
)
from paceline.flowcore.messages.journal import Entry, encode
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.patterns import FlowId
from paceline.service.instruments import HostInstruments
from paceline.service.shared_clock import SharedClock

_log = logging.getLogger(__name__)

SAME_LOAD = 0.01  # of the NICs: loads of cross traffic that differ by less are the same


def _reports(effects: Iterable[Effect]) -> list[Report]:
    return [one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Report)]


class AgentDriver:
    """`send` takes a report for the switch; None: there is no switch. After every decision `deadline_ns` may be
    another."""

    def __init__(
        self,
        agent: HostAgent,
        clock: SharedClock,
        monitor: Monitor,
        enforcer: Enforcer,
        instruments: HostInstruments,
        journal: TextIO | None,
        report_filter: ReportFilter,
        expelled: dict[str, str],
    ) -> None:
        self.send: Callable[[Report], object] | None = None
        self.filter = report_filter
        self.expelled = expelled  # jobs with numbers that no switch takes, and why
        self.deadline_ns: int | None = None  # the agent's, since it last heard something
        self.missed_slots = 0
        self.durations = Durations()
        self._agent, self._clock, self._monitor, self._enforcer = agent, clock, monitor, enforcer
        self._instruments, self._journal = instruments, journal
        self._decided_slot = -1  # in which the last decision fell ...
        self._judged_slot = -1  # ... and up to which slots without one have been counted

    def take(self, *events: HostEvent) -> None:
        """What the jobs concerned have sent, then what happened, then the effects in one go."""
        began_s = time.perf_counter()
        clock_set = self._clock_set()
        now_ns = self._clock.now_ns()
        slot = self._agent.clock.index(now_ns)
        self.judge(slot)
        self._decided_slot = slot
        for event in events:
            if isinstance(event, Feedback):
                self._note_wait(event, now_ns)
        effects = self._handle((*clock_set, *self._progress(events, now_ns), *self._others(events), *events), now_ns)
        if bad := unsendable(_reports(effects)):
            effects += self._expel(bad, now_ns)
        for report in _reports(effects):
            passed = self.filter.passed(report, slot, self.expelled)
            if passed is not None and self.send is not None:
                self.send(passed)
        limits = {effect.flow: effect for effect in effects if isinstance(effect, Limit)}
        present = [limit for flow, limit in limits.items() if flow in self._agent.flows]
        if present:
            self._enforcer.apply(present)
            self._monitor.limited(present, self._clock.own_ns())
        took_s = time.perf_counter() - began_s
        self.durations.note(took_s)
        self._instruments.decision.observe(took_s)
        self.deadline_ns = self._agent.next_deadline()

    def _handle(self, events: Sequence[HostEvent], now_ns: int) -> list[Effect]:
        before = set(self._agent.flows) if any(isinstance(event, JobJoined | JobLeft) for event in events) else None
        event = together(events)
        done = self._agent.handle(event, now_ns)
        if self._journal is not None:
            self._write_down(self._journal, Entry(now_ns, self._agent.name, event, tuple(done)))
        if before is not None:
            left = {one.job for one in events if isinstance(one, JobLeft)}
            self._attach({flow for flow in before if flow.job in left}, before)
        return done

    def _expel(self, jobs: Mapping[str, str], now_ns: int) -> list[Effect]:
        """Jobs leave whose numbers no switch takes."""
        self.expelled.update(jobs)
        self._instruments.bad_numbers.inc(len(jobs))
        return self._handle([JobLeft(job) for job in jobs], now_ns)

    def judge(self, slot: int) -> None:
        """Counts the slots before this one that passed without a decision while flows had bytes to send."""
        due_slot = slot - self._agent.slots_per_report
        missed = due_slot - max(self._decided_slot, self._judged_slot)
        self._judged_slot = max(self._judged_slot, due_slot)
        if missed > 0 and self._agent.policy.paced and self._agent.live_flows():
            self.missed_slots += missed
            self._instruments.missed_slots.inc(missed)

    def _clock_set(self) -> list[HostEvent]:
        """If it was: no slot was missed in between, and none is decided already."""
        step_ns = self._clock.take_step()
        if not step_ns:
            return []
        _log.warning("the switch's clock is another: stepped by %.3f s", step_ns / 1e9)
        self._decided_slot = self._judged_slot = self._agent.clock.index(self._clock.now_ns()) - 1
        return [ClockSet(step_ns)]

    def _progress(self, events: Iterable[HostEvent], now_ns: int) -> list[HostEvent]:
        """What the jobs concerned have sent: those that claim, plan anew or may hand over. A flow that has another rate
        is looked at soon in any case."""
        concerned: set[str] = set()
        for event in events:
            match event:
                case Feedback():
                    concerned.update(grant.flow.job for grant in event.grants if not grant.accepted)
                case SwitchLost():
                    concerned.update(self._agent.jobs)
                case Tick():
                    concerned.update(self._agent.counts(now_ns))
        if not concerned or not self._agent.policy.paced:
            return []
        progress = self._monitor.progress(self._clock.own_ns(), concerned)
        return [progress] if progress.sent_bytes else []

    def _others(self, events: Sequence[HostEvent]) -> list[HostEvent]:
        """Cross traffic's load, where the host is about to report and it is another."""
        if not any(isinstance(event, Tick) for event in events):
            return []
        load_bps, told_bps = self._enforcer.others_load_bps, self._agent.others_bps
        same = abs(load_bps - told_bps) <= SAME_LOAD * self._agent.nic_bps and (load_bps > 0.0) == (told_bps > 0.0)
        return self.foreign_news() if same else [OthersSend(load_bps, self._enforcer.meets_foreign)]

    def foreign_news(self) -> list[HostEvent]:
        """Foreign traffic has come or gone: also while nothing else is due, because every job is left alone."""
        foreign = self._enforcer.meets_foreign
        if foreign == self._agent.meets_foreign:
            return []
        return [OthersSend(self._enforcer.others_load_bps, foreign)]

    def _note_wait(self, answer: Feedback, now_ns: int) -> None:
        waited_ns = self._agent.answers.waited_ns(answer.answers, now_ns)
        if waited_ns is not None:
            self._instruments.switch_answer_latency.observe(waited_ns / 1e9)

    def _write_down(self, journal: TextIO, entry: Entry) -> None:
        try:
            journal.write(encode(entry) + "\n")
            journal.flush()  # nothing is left to be written at the end, when an error would have no effect
        except OSError as error:
            _log.error("no journal from now on: %s", error)
            self._journal = None
            with suppress(OSError):  # it tries once more
                journal.close()

    def _attach(self, left: set[FlowId], before: set[FlowId]) -> None:
        """Also flows that left and have come again at the same time: their sockets may be others."""
        for flow in left | (before - self._agent.flows.keys()):
            self._enforcer.detach(flow)
        for flow in self._agent.flows.keys() - (before - left):
            self._enforcer.attach(flow, self._monitor.sockets_of(flow))

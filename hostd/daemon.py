"""hostd from start to end: progress in, feedback in, rates out.

    monitor ──events──▶ ┌─────────┐ ──rates────▶ enforcer ──▶ kernel
    switch  ─feedback─▶ │ decider │ ──reports──▶ switch
    alarm   ────tick──▶ └─────────┘

Every decision is HostAgent's (flowcore); this is the shell around it: hand over what happened, and set the alarm for
whatever is due next. Nothing here waits for a peer. Whatever goes wrong, the jobs go on: a fault in the loop lifts
every limit before it ends the daemon.
"""

import asyncio
import logging
from collections.abc import Container, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import fields
from pathlib import Path

from hostd.config import HostConfig, read_config
from hostd.driver import Decider
from hostd.enforce.base import CannotEnforce
from hostd.enforce.enforcer import Enforcer
from hostd.introspect.control import ControlSocket
from hostd.introspect.explain import explain
from hostd.introspect.metrics import Publisher
from hostd.introspect.status import status
from hostd.kernel.sockets import DataSocket
from hostd.monitor.flow_view import moving
from hostd.monitor.job_log import JobLog
from hostd.monitor.monitor import Monitor
from hostd.monitor.throughput import AchievedRates
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import HostEvent, JobJoined, JobLeft, SwitchLost, Tick, Welcomed
from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.policy import POLICIES
from paceline.service.instruments import HostInstruments
from paceline.service.metrics import MetricsServer, new_registry
from paceline.service.shared_clock import SharedClock
from paceline.service.timer import Timer
from paceline.service.tls import expecting
from paceline.wire.calls import open_channel
from paceline.wire.host_stream import HostStream, Terms

_log = logging.getLogger(__name__)

# The loop is alive as long as it is no later than this; systemd's watchdog is patted only then.
ALIVE_SLOTS = 10

HOUSEKEEPING_S = 1.0
LOSSES_S = 0.1  # paceline/flowcore/detect/losses.py

# What a reload may change. With the rest the agent was built, or others hold on to it.
OF_JOBS = ("jobs", "without_shim")
OF_ENFORCING = ("mode", "backend", "takeover", "small_bundles", "congestion_control", "retransmit_ms")


class HostDaemon:
    def __init__(
        self,
        config: HostConfig,
        path: Path | None = None,
        journal: Path | None = None,
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        self.config = config
        self.path = path
        self.overrides = overrides or {}  # of the command line: what a reload reads comes after them
        self.clock = SharedClock()
        self.slots = config.slots.clock()
        switch = config.switch_name if config.switch else None
        self.agent = HostAgent(config.name, config.topology, self.slots, POLICIES[config.policy](), switch)
        self.registry = new_registry()
        self.instruments = HostInstruments(self.registry)
        self._publisher = Publisher(self)
        self._job_log = JobLog()
        self.stream: HostStream | None = None
        self.terms_refused = ""  # why the switch is not listened to
        self.silent: tuple[str, ...] = ()  # switches that ours has lost
        self.achieved = AchievedRates()
        self._journal_path = journal
        self._open = AsyncExitStack()
        self._fault: asyncio.Future[None] = asyncio.Future()  # of the alarm's callback, for which nobody waits
        self._deadline_ns: int | None = None  # the agent's, since it last heard something
        self._beaten_slot = -1
        self._beat_ns = 0

    # ---- Life ----

    async def startup(self) -> None:
        config = self.config
        config.runtime_directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            self.enforcer = Enforcer(config, self.slots.length_ns)
        except CannotEnforce as error:
            raise OSError(str(error)) from None
        self._open.callback(self.enforcer.close)
        self.monitor = Monitor(
            config.name,
            config.host_of,
            config.nic_bps,
            config.shim_directory,
            self._sockets_changed,
            config.without_shim,
        )
        self.monitor.patient = config.mode == "observe"
        self._open.callback(self.monitor.close)
        journal = None
        if self._journal_path is not None:
            journal = self._open.enter_context(self._journal_path.open("w", encoding="utf-8"))
        self.decider = Decider(self.agent, self.clock, self.monitor, self.enforcer, self.instruments, journal)
        if config.metrics is not None:
            metrics = MetricsServer(self.registry, config.metrics, self.alive)
            self._open.callback(metrics.close)
        commands = {"status": self._status, "explain": self._explain, "release": self._release}
        self.control = ControlSocket(config.control_socket, commands)
        await self.control.open()
        self._open.push_async_callback(self.control.close)
        if config.switch is not None:
            await self._open_stream(config.switch)
        self._timer = Timer(self._ring)  # last, so that it is silent while the rest is closed
        self._open.callback(self._timer.close)
        _log.info("%s with %s, policy %s", config.mode, self.enforcer.backend.name, config.policy)

    async def _open_stream(self, address: str) -> None:
        config = self.config
        credentials = config.tls.channel_credentials() if config.tls else None
        options = expecting(config.switch_name) if config.tls else None
        channel = open_channel(address, credentials, options)
        self._open.push_async_callback(channel.close)
        self.stream = self.decider.stream = HostStream(
            channel,
            config.name,
            config.topology.fingerprint,
            self.clock.own_ns,
            self.clock.peer,
            horizon=self.slots.horizon,
            slot_length_ns=self.slots.length_ns,
            policy=config.policy,
            on_welcome=self._welcomed,
            on_feedback=self._feedback,
            on_lost=self._lost,
        )

    async def run(self) -> None:
        """Ends with the first fault of a callback."""
        async with asyncio.TaskGroup() as tasks:
            if self.stream is not None:
                tasks.create_task(self.stream.run())
            tasks.create_task(self._keep_house())
            tasks.create_task(self._watch_losses())
            self._ring()
            await self._fault

    async def shutdown(self) -> None:
        self._fault.cancel()
        await self._open.aclose()

    async def reload(self) -> None:
        """What can change while jobs run: mode, backend, which jobs, and how a backend works."""
        if self.path is None:
            return
        fresh, before = read_config(self.path, **self.overrides), self.config
        changed = {one.name for one in fields(fresh) if getattr(fresh, one.name) != getattr(before, one.name)}
        if fixed := changed - {*OF_JOBS, *OF_ENFORCING}:
            raise OSError(f"{self.path}: {min(fixed)} cannot change while hostd runs; restart it")
        if self.enforcer.released or changed & {*OF_ENFORCING}:
            try:
                self.enforcer.reconfigure(fresh)
            except CannotEnforce as error:
                raise OSError(f"{self.path}: {error}") from None
        self.config = fresh
        self.monitor.patient, self.monitor.without_shim = fresh.mode == "observe", fresh.without_shim
        leaving = [JobLeft(job) for job in self.agent.jobs if not self._wanted(job)]
        joining = [job for job in self.monitor.jobs if self._wanted(job) and job not in self.agent.jobs]
        introduced = [event for job in joining for event in self.monitor.introduce(job)]
        self._job_log.note(introduced, self._wanted)
        for event in leaving:
            _log.info("job no longer paced", extra={"job": event.job})
        self._decide([*leaving, *introduced])
        _log.info("%s with %s from now on", fresh.mode, self.enforcer.backend.name)

    def alive(self) -> bool:
        late_ns = self.clock.own_ns() - min(self._beat_ns, self.monitor.due_ns)
        return late_ns < ALIVE_SLOTS * self.slots.length_ns

    # ---- Whatever is due ----

    def _ring(self) -> None:
        try:
            self._do_what_is_due()
            self._arm()
        except Exception as error:
            if not self._fault.done():
                self._fault.set_exception(error)

    def _do_what_is_due(self) -> None:
        now_ns = self.clock.now_ns()
        slot = self.slots.index(now_ns)
        if begun := slot != self._beaten_slot:
            # First of all: whoever slept too long has no lease any more, and must set nothing before he knows.
            self._beat(slot)
        events: list[HostEvent] = []
        if (own_ns := self.clock.own_ns()) >= self.monitor.due_ns:
            events = self.monitor.poll(own_ns)
            self._job_log.note(events, self._wanted)
        if self.config.mode != "observe":
            events = [event for event in events if self._allowed(event)]
            if self._deadline_ns is not None and now_ns >= self._deadline_ns:
                self._take([*events, Tick()], self.agent.jobs if self.agent.counts(now_ns) else ())
            elif events:
                self._take(events)
        if begun:
            self.decider.judge(slot)
            self.achieved.sample(moving(self.monitor.jobs))

    def _beat(self, slot: int) -> None:
        """Once per slot: the guardian hears from us."""
        self._beaten_slot, self._beat_ns = slot, self.clock.own_ns()
        self.enforcer.beat()

    def _take(self, events: Iterable[HostEvent], concerned: Container[str] = ()) -> None:
        if step_ns := self.clock.take_step():
            _log.warning("the switch's clock is another: stepped by %.3f s", step_ns / 1e9)
            self.decider.clock_set(step_ns)
        self.decider.take(events, concerned)
        self._deadline_ns = self.agent.next_deadline()

    def _decide(self, events: Iterable[HostEvent], concerned: Container[str] = ()) -> None:
        self._take(events, concerned)
        self._arm()

    def _arm(self) -> None:
        """For the next look, the agent's deadline or the next slot, whichever is first."""
        now_ns, own_ns = self.clock.now_ns(), self.clock.own_ns()
        delay_ns = min(self.monitor.due_ns - own_ns, self.slots.next_start_ns(now_ns) - now_ns)
        if self._deadline_ns is not None:
            delay_ns = min(delay_ns, self._deadline_ns - now_ns)
        self._timer.set(delay_ns)

    async def _watch_losses(self) -> None:
        while True:
            await asyncio.sleep(LOSSES_S)
            self.enforcer.watch_losses()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            self.enforcer.refresh()
            if self.config.metrics is not None:
                self._publisher.publish()

    # ---- What happens ----

    def _wanted(self, job: str) -> bool:
        return self.config.mode != "observe" and (self.config.jobs is None or job in self.config.jobs)

    def _allowed(self, event: HostEvent) -> bool:
        """Jobs that are not on the list never join, and events of a job that has not joined mean nothing."""
        return not isinstance(event, JobJoined) or self._wanted(event.job)

    def _sockets_changed(self, flow: FlowId, sockets: tuple[DataSocket, ...]) -> None:
        if flow in self.agent.flows:
            self.enforcer.attach(flow, sockets)

    def _welcomed(self, terms: Terms) -> None:
        ours = (self.slots.length_ns, self.slots.horizon, self.slots.epoch_ns, self.config.policy)
        if (terms.slot_length_ns, terms.horizon, terms.epoch_ns, terms.policy) != ours:
            # It has not compared them with our Hello. What we claimed it would divide its links for, in vain.
            self.decider.stream = None
            self.terms_refused = (
                f"{terms.switch} has {terms.horizon} slots of {terms.slot_length_ns / 1e6:g} ms since "
                f"{terms.epoch_ns} ns and policy {terms.policy}; configure the same in both"
            )
            _log.error("deciding alone: %s", self.terms_refused)
            self._decide([SwitchLost()], self.agent.jobs)
            return
        self.decider.stream, self.terms_refused = self.stream, ""
        _log.info("taken in by %s", terms.switch, extra={"switch": terms.switch})
        self._decide([Welcomed(terms.phase_ns)])

    def _feedback(self, feedback: Feedback) -> None:
        if not self.terms_refused:
            took_ns = self.decider.negotiation.heard(feedback.answers, self.clock.now_ns())
            if took_ns is not None:
                self.instruments.negotiation.observe(took_ns / 1e9)
            self.silent = feedback.silent
            self._decide([feedback], {grant.flow.job for grant in feedback.grants})

    def _lost(self) -> None:
        self.terms_refused = ""  # why there is no stream now, the stream says
        _log.warning("no switch to ask; deciding alone until there is one")
        self._decide([SwitchLost()], self.agent.jobs)

    # ---- For people ----

    def _status(self, _arguments: dict[str, object]) -> dict[str, object]:
        return status(self)

    def _explain(self, arguments: dict[str, object]) -> dict[str, object]:
        return explain(self, str(arguments.get("flow", "")))

    def _release(self, _arguments: dict[str, object]) -> dict[str, object]:
        problems = self.enforcer.release()
        return {"released": not problems, "problems": problems}

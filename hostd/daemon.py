"""hostd from start to end: progress in, feedback in, rates out.

    monitor ──events──▶ ┌───────────┐ ──SetRate──▶ enforcer ──▶ kernel
    switch  ─feedback─▶ │ HostAgent │ ──Send─────▶ switch
    timer   ────tick──▶ └───────────┘

Every decision is HostAgent's (flowcore); this is the shell around it: read the counters, hand over what happened,
perform the effects, re-arm the timer. Nothing here waits for a peer. Whatever goes wrong, the jobs go on: a fault in
the loop lifts every limit before it ends the daemon.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable
from contextlib import AsyncExitStack
from dataclasses import fields
from pathlib import Path
from typing import TextIO

from flowcore.host import HostAgent
from flowcore.journal import Entry, encode
from flowcore.messages import (
    Effect,
    Feedback,
    HostEvent,
    JobJoined,
    JobLeft,
    Progress,
    Report,
    Send,
    SetRate,
    SwitchLost,
    Tick,
    Welcomed,
)
from flowcore.patterns import FlowId
from flowcore.policy import POLICIES
from hostd.achieved import AchievedRates
from hostd.config import HostConfig, read_config
from hostd.control import ControlSocket
from hostd.durations import Durations
from hostd.enforce.base import CannotEnforce, Limit
from hostd.enforcer import Enforcer
from hostd.monitor import Monitor
from hostd.sockets import DataSocket
from hostd.status import explain, status
from service.instruments import HostInstruments
from service.metrics import MetricsServer, new_registry
from service.shared_clock import SharedClock
from service.tls import expecting
from wire.calls import open_channel
from wire.host_stream import HostStream, Terms

_log = logging.getLogger(__name__)

# The loop is alive as long as it is no later than this; systemd's watchdog is patted only then.
ALIVE_SLOTS = 10


# What a reload may change. With the rest the agent was built, or others hold on to it.
OF_JOBS = ("jobs",)
OF_ENFORCING = ("mode", "backend", "takeover", "small_bundles", "congestion_control")


class HostDaemon:
    def __init__(self, config: HostConfig, path: Path | None = None, journal: Path | None = None) -> None:
        self.config = config
        self.path = path
        self.clock = SharedClock()
        self.slots = config.slots.clock()
        switch = config.switch_name if config.switch else None
        self.agent = HostAgent(config.name, config.topology, self.slots, POLICIES[config.policy](), switch)
        self.registry = new_registry()
        self.instruments = HostInstruments(self.registry)
        self.stream: HostStream | None = None
        self.terms_refused = ""  # why the switch is not listened to
        self.silent: tuple[str, ...] = ()  # switches that ours has lost
        self.missed_slots = 0
        self.decisions = Durations()
        self.achieved = AchievedRates()
        self._journal_path, self._journal = journal, None
        self._open = AsyncExitStack()
        self._timer: asyncio.TimerHandle | None = None
        self._fault: asyncio.Future[None] = asyncio.Future()  # of a callback
        self._decided_slot = -1  # in which the last decision fell ...
        self._judged_slot = -1  # ... and up to which slots without one have been counted
        self._beat_ns = 0
        self._fail_opens = 0  # of which Prometheus knows

    # ---- Life ----

    async def startup(self) -> None:
        config = self.config
        config.runtime_directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            self.enforcer = Enforcer(config, self.slots.length_ns)
        except CannotEnforce as error:
            raise OSError(str(error)) from None
        self._open.callback(self._close_enforcer)
        self.monitor = Monitor(
            config.name, config.host_of, config.nic_bps, config.shim_directory, self._sockets_changed
        )
        self._open.callback(self.monitor.close)
        if self._journal_path is not None:
            self._journal = self._open.enter_context(self._journal_path.open("w", encoding="utf-8"))
        if config.metrics is not None:
            metrics = MetricsServer(self.registry, config.metrics)
            self._open.callback(metrics.close)
        commands = {"status": self._status, "explain": self._explain, "release": self._release}
        self.control = ControlSocket(config.control_socket, commands)
        await self.control.open()
        self._open.push_async_callback(self.control.close)
        if config.switch is not None:
            await self._open_stream(config.switch)
        _log.info("%s with %s, policy %s", config.mode, self.enforcer.backend.name, config.policy)

    async def _open_stream(self, address: str) -> None:
        config = self.config
        credentials = config.tls.channel_credentials() if config.tls else None
        options = expecting(config.switch_name) if config.tls else None
        channel = open_channel(address, credentials, options)
        self._open.push_async_callback(channel.close)
        self.stream = HostStream(
            channel,
            config.name,
            config.topology.fingerprint,
            self.clock.own_ns,
            self.clock.peer,
            on_welcome=self._welcomed,
            on_feedback=self._feedback,
            on_lost=self._lost,
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if self.stream is not None:
                tasks.create_task(self.stream.run())
            tasks.create_task(self._beat())
            tasks.create_task(self._keep_house())
            tasks.create_task(self._watch())

    async def shutdown(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fault.cancel()
        await self._open.aclose()

    async def reload(self) -> None:
        """What can change while jobs run: mode, backend, which jobs, and how a backend works."""
        if self.path is None:
            return
        fresh, before = read_config(self.path), self.config
        changed = {one.name for one in fields(fresh) if getattr(fresh, one.name) != getattr(before, one.name)}
        if fixed := changed - {*OF_JOBS, *OF_ENFORCING}:
            raise OSError(f"{self.path}: {min(fixed)} cannot change while hostd runs; restart it")
        if self.enforcer.released or changed & {*OF_ENFORCING}:
            try:
                self.enforcer.reconfigure(fresh)
            except CannotEnforce as error:
                raise OSError(f"{self.path}: {error}") from None
        self.config = fresh
        leaving = [JobLeft(job) for job in self.agent.jobs if not self._wanted(job)]
        joining = [job for job in self.monitor.jobs if self._wanted(job) and job not in self.agent.jobs]
        self._take([*leaving, *(event for job in joining for event in self.monitor.introduce(job))])
        _log.info("%s with %s from now on", fresh.mode, self.enforcer.backend.name)

    def alive(self) -> bool:
        late_ns = self.clock.own_ns() - min(self._beat_ns, self.monitor.due_ns)
        return late_ns < ALIVE_SLOTS * self.slots.length_ns

    def _close_enforcer(self) -> None:
        self.enforcer.close()

    # ---- What happens ----

    async def _watch(self) -> None:
        """Ends with the first fault of a callback: they are cheaper than tasks, but nobody waits for them."""
        try:
            self._look()
            await self._fault
        finally:
            self._looking.cancel()

    def _look(self) -> None:
        events = self.monitor.poll(self.clock.own_ns())
        if events and self.config.mode != "observe":
            self._take(event for event in events if self._allowed(event))
        delay_ns = max(0, self.monitor.due_ns - self.clock.own_ns())
        self._looking = self._call(delay_ns / 1e9, self._look)

    def _call(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Later, and what it raises ends the daemon as a task's fault would."""

        def guarded() -> None:
            try:
                callback()
            except Exception as error:
                if not self._fault.done():
                    self._fault.set_exception(error)

        return asyncio.get_running_loop().call_later(delay_s, guarded)

    async def _beat(self) -> None:
        """Once per slot: the guardian hears from us."""
        while True:
            slot = self.slots.index(self.clock.now_ns())
            self._beat_ns = self.clock.own_ns()
            self.enforcer.beat()
            self._judge(slot)
            live = self.agent.live_flows()
            self.achieved.sample(self.clock.own_ns(), [(flow.id, flow.volume_bytes) for flow in live])
            await asyncio.sleep((self.slots.end_ns(slot) - self.clock.now_ns()) / 1e9 + 1e-4)

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.enforcer.refresh()
            self._publish()

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
            self.terms_refused = (
                f"{terms.switch} has {terms.horizon} slots of {terms.slot_length_ns / 1e6:g} ms and policy "
                f"{terms.policy}: configure the same here"
            )
            _log.error("deciding alone: %s", self.terms_refused)
            return
        self.terms_refused = ""
        _log.info("taken in by %s", terms.switch, extra={"switch": terms.switch})
        self._take([Welcomed(terms.phase_ns)])

    def _feedback(self, feedback: Feedback) -> None:
        if not self.terms_refused:
            self.silent = feedback.silent
            self._take([feedback], {grant.flow.job for grant in feedback.grants}, let_go=True)

    def _lost(self) -> None:
        _log.warning("the switch is gone; deciding alone until it returns")
        self._take([SwitchLost()], self.agent.jobs)

    def _ring(self) -> None:
        self._timer = None
        self._take([Tick()], self.agent.jobs)

    # ---- Deciding ----

    def _take(self, events: Iterable[HostEvent], concerned: Container[str] = (), let_go: bool = False) -> None:
        """What the jobs concerned have sent, then what happened, then the effects in one go."""
        began = time.perf_counter()
        now_ns = self.clock.now_ns()
        self._judge(self.slots.index(now_ns))
        self._decided_slot = self.slots.index(now_ns)
        effects: list[Effect] = []
        moved: tuple[tuple[FlowId, float], ...] = ()
        if concerned and self.agent.policy.paced:
            moved = self.monitor.progress(self.clock.own_ns(), concerned, let_go)
        for event in (*([Progress(moved)] if moved else []), *events):
            before = set(self.agent.flows) if isinstance(event, JobJoined | JobLeft) else None
            done = self.agent.handle(event, now_ns)
            self._record(now_ns, event, done)
            effects += done
            if before is not None:
                self._attach(before)
        self._perform(effects)
        self._arm(now_ns)
        took_s = time.perf_counter() - began
        self.decisions.note(took_s)
        self.instruments.decision.observe(took_s)

    def _judge(self, slot: int) -> None:
        """Counts the slots before this one that passed without a decision while flows had bytes to send."""
        missed = slot - 1 - max(self._decided_slot, self._judged_slot)
        self._judged_slot = max(self._judged_slot, slot - 1)
        if missed > 0 and self.agent.policy.paced and self.agent.live_flows():
            self.missed_slots += missed
            self.instruments.missed_slots.inc(missed)

    def _attach(self, before: set[FlowId]) -> None:
        """The enforcer holds the sockets of exactly the flows that the agent knows."""
        for flow in before - self.agent.flows.keys():
            self.enforcer.detach(flow)
            self.instruments.forget_flow(flow.job, str(flow))
        for flow in self.agent.flows.keys() - before:
            self.enforcer.attach(flow, self.monitor.sockets_of(flow))

    def _perform(self, effects: Iterable[Effect]) -> None:
        limits: dict[FlowId, Limit] = {}
        for effect in effects:
            match effect:
                case SetRate(flow, rate_bps, ceiling_bps):
                    limits[flow] = Limit(flow, rate_bps, ceiling_bps)
                case Send(_, message) if isinstance(message, Report) and self.stream is not None:
                    self.stream.send(message)
        present = [limit for flow, limit in limits.items() if flow in self.agent.flows]
        if present:
            self.enforcer.apply(present)

    def _arm(self, now_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ns = self.agent.next_deadline()
        if deadline_ns is not None:
            delay_s = max(0.0, (deadline_ns - now_ns) / 1e9)
            self._timer = self._call(delay_s, self._ring)

    def _record(self, now_ns: int, event: HostEvent, effects: list[Effect]) -> None:
        journal: TextIO | None = self._journal
        if journal is not None:
            journal.write(encode(Entry(now_ns, self.config.name, event, tuple(effects))) + "\n")

    # ---- For people ----

    def _publish(self) -> None:
        kernel = self.enforcer.read_back()
        instruments = self.instruments
        instruments.switch_silent.set(self.agent.isolated)
        instruments.fail_opens.inc(self.enforcer.fail_opens - self._fail_opens)
        self._fail_opens = self.enforcer.fail_opens
        for flow in self.agent.flows.values():
            names = (flow.id.job, str(flow.id))
            instruments.requested_rate.labels(*names).set(flow.rate_bps)
            instruments.achieved_rate.labels(*names).set(self.achieved.bps(flow.id))
            if flow.id in kernel:
                instruments.kernel_rate.labels(*names).set(kernel[flow.id].rate_bps)

    def _status(self, _arguments: dict[str, object]) -> dict[str, object]:
        return status(self)

    def _explain(self, arguments: dict[str, object]) -> dict[str, object]:
        return explain(self, str(arguments.get("flow", "")))

    def _release(self, _arguments: dict[str, object]) -> dict[str, object]:
        self.enforcer.release()
        return {"released": True}

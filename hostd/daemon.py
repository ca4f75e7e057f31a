"""hostd from start to end: progress in, feedback in, rates out.

    monitor ──events──▶ ┌─────────────┐ ──rates────▶ enforcer ──▶ kernel
    switch  ─feedback─▶ │ AgentDriver │ ──reports──▶ switch
    timer   ────tick──▶ └─────────────┘

Every decision is HostAgent's (flowcore); this is the shell around it: hand over what happened, and set the timer for
whatever is due next. Nothing here waits for a peer. Whatever goes wrong, the jobs go on: a fault in the loop lifts
every limit before it ends the daemon.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from hostd.address_book import AddressBook
from hostd.admission import Admission
from hostd.config import HostConfig, read_config
from hostd.driver import AgentDriver
from hostd.enforce.enforcer import Enforcer
from hostd.enforce.errors import CannotEnforce, ErrorKind
from hostd.history.history import History, state_directory
from hostd.history.line import minutes_of
from hostd.host_state import host_state
from hostd.introspect.control import ControlSocket, Peer
from hostd.introspect.explain import explain, several
from hostd.introspect.host_view import HostView, SwitchView
from hostd.introspect.metrics import HostMetrics
from hostd.introspect.profiles import profiles
from hostd.introspect.status import status
from hostd.introspect.timeline import Timeline
from hostd.introspect.unpaced_log import UnpacedLog
from hostd.introspect.users import USERS_SOCKET, UserSocket, own_answer
from hostd.introspect.watch import watch
from hostd.kernel import calls
from hostd.kernel.sockets import DataSocket, own_namespace
from hostd.monitor.flow_view import moving
from hostd.monitor.job_log import JobLog
from hostd.monitor.monitor import Monitor
from hostd.monitor.throughput import Throughput
from hostd.monitor.users import Users
from hostd.preflight import refuse_what_cannot_work
from hostd.registration.registrations import Registrations
from hostd.report_filter import ReportFilter
from hostd.rewiring import rewire, why_not
from hostd.switch_link import SwitchLink, SwitchSays
from hostd.workers.pool import Workers
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import HostEvent, JobLeft, Tick
from paceline.flowcore.model.job_names import log_fields
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.policy import policy_named
from paceline.service.handshakes.certificates import require_valid
from paceline.service.instruments import HostInstruments
from paceline.service.metrics import MetricsServer, new_registry
from paceline.service.shared_clock import SharedClock
from paceline.service.timer import Timer

_log = logging.getLogger(__name__)

# The loop is alive as long as it is no later than this; systemd's watchdog is patted only then.
ALIVE_SLOTS = 10

HOUSEKEEPING_S = 1.0
HISTORY_S = 60.0
LOSSES_NS = 100_000_000  # paceline/flowcore/detect/losses.py

# What a reload may change. With the rest the agent was built, or other hosts hold on to it.
RELOADABLE = {"mode", "jobs", "without_shim", "quotas", "weights", "tls"}  # tls: for streams to come
RELOADABLE |= {"topology", "host_of", "unresolved"}  # but for the cables of this host
RELOADABLE |= {"backend", "takeover", "small_tso_bursts", "congestion_control", "min_rto_ms"}


class HostDaemon:
    def __init__(
        self,
        config: HostConfig,
        path: Path | None = None,
        journal: Path | None = None,
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        self.config = config
        self._path, self._journal_path = path, journal
        self._overrides = overrides or {}  # of the command line: what a reload reads comes after them
        self._clock = SharedClock()
        self._slots = config.slots.clock()
        switch = config.switch_name if config.switch else None
        policy = policy_named(config.policy)
        self._agent = HostAgent(config.name, config.topology, self._slots, policy, switch, config.background)
        self._registry = new_registry()
        self._instruments = HostInstruments(self._registry)
        self._metrics = HostMetrics(self._instruments)
        self._job_log = JobLog()
        self._unpaced_log = UnpacedLog()
        self._users = Users(config.tenants)
        self._admission = Admission(config, self._users, self._agent.jobs)
        self._host_of = AddressBook({})  # the monitor's; its entries may change
        self._host_of.become(config.host_of)
        self._namespace = own_namespace()
        self._throughput = Throughput()
        self._timeline = Timeline()
        self._link: SwitchLink | None = None
        self._open = AsyncExitStack()
        self._fault: asyncio.Future[Exception] = asyncio.Future()  # of the timer's callback, which no caller waits for
        self._beaten_slot = -1
        self._beat_ns = self._losses_ns = 0  # when hostd last beat, and looked for losses

    # ---- Life ----

    async def startup(self) -> None:
        config = self.config
        config.runtime_directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Until the end: hostd itself touches no object of a job.
        workers = Workers()
        self._open.callback(workers.close)
        self._open.enter_context(calls.made_by(workers))
        try:
            self._enforcer = Enforcer(config.enforcement, self._slots.length_ns)
        except CannotEnforce as error:
            raise OSError(str(error)) from None
        self._registrations = Registrations(config.registration_socket, self._enforcer.pages.note)
        self._open.callback(self._registrations.close)
        self._open.callback(self._enforcer.close)  # limits are lifted first
        self._monitor = Monitor(
            config.name,
            self._host_of,
            config.nic_bps,
            config.shim_directory,
            self._sockets_changed,
            config.without_shim,
            self._registrations,
            self._users,
        )
        self._monitor.slow_poll, self._monitor.is_left_alone = config.mode == "observe", self._agent.leaves_alone
        self._enforcer.pages.jobs, self._enforcer.of_jobs = self._monitor, self._monitor.connections
        self._admission.weighable = lambda job: not self._enforcer.why_unweighed and self._monitor.has_sockets(job)
        self._admission.unstoppable = lambda job: self._enforcer.choice(job).backend == "gate"
        self._open.callback(self._monitor.close)
        journal = None
        if self._journal_path is not None:
            journal = self._open.enter_context(self._journal_path.open("w", encoding="utf-8"))
        self._driver = AgentDriver(
            self._agent,
            self._clock,
            self._monitor,
            self._enforcer,
            self._instruments,
            journal,
            ReportFilter(config.quotas.claims),
            self._admission.expelled,
        )
        self._renew_certificates()
        if config.switch is not None:
            self._link = SwitchLink(config, config.switch, self._slots, self._clock, self._heard)
            self._driver.send = self._link.stream.send
            self._open.push_async_callback(self._link.close)
        if config.metrics is not None:
            server = MetricsServer(self._registry, config.metrics, self.alive)
            self._open.callback(server.close)
        questions = {
            "status": lambda _: status(self.view()),
            "explain": lambda asked: explain(self.view(), str(asked.get("flow", ""))),
            "watch": lambda asked: watch(self.view(), self._timeline, asked.get("since")),
            "profiles": self._profiles,
        }
        self._control = ControlSocket(config.control_socket, questions, {"release": self._release})
        await self._control.open()
        self._open.push_async_callback(self._control.close)
        users = UserSocket(
            config.runtime_directory / USERS_SOCKET, lambda request, uid: own_answer(self.view(), request, uid)
        )
        users.open()
        self._open.callback(users.close)
        self._timer = Timer(self._expired)  # last, so that it is silent while the rest is closed
        self._open.callback(self._timer.close)
        _log.info("%s with %s, policy %s", config.mode, self._enforcer.backend.name, config.policy)
        if config.mode == "enforce" and (why := self._enforcer.why_unweighed):
            _log.info("jobs take no turns beside cross traffic: %s", why)

    async def run(self) -> None:
        """Ends with the first fault of a callback."""
        async with asyncio.TaskGroup() as tasks:
            if self._link is not None:
                tasks.create_task(self._link.run())
            tasks.create_task(self._keep_house())
            tasks.create_task(self._keep_history())
            self._expired()
            raise await self._fault  # a result: as its exception a future would take no StopIteration

    async def shutdown(self) -> None:
        self._fault.cancel()
        await self._open.aclose()

    async def reload(self) -> None:
        """What can change while jobs run. Files are read in a thread, and names looked up: slots go on meanwhile."""
        if self._path is None:
            return
        fresh, before = await asyncio.to_thread(read_config, self._path, **self._overrides), self.config
        refuse_what_cannot_work(fresh, str(self._path))
        changed = {one.name for one in fields(fresh) if getattr(fresh, one.name) != getattr(before, one.name)}
        if fixed := changed - RELOADABLE:
            raise OSError(f"{self._path}: {min(fixed)} cannot change while hostd runs; restart it")
        if why := why_not(before.topology, fresh.topology, fresh.name, self._monitor.jobs):
            raise OSError(f"{self._path}: {why}")
        if self._enforcer.released or fresh.enforcement != before.enforcement:
            try:
                self._enforcer.reconfigure(fresh.enforcement)
            except CannotEnforce as error:
                raise OSError(f"{self._path}: {error}") from None
        self.config = fresh
        self._renew_certificates()
        moved = self._rewire(fresh) if changed & {"topology", "host_of"} else set()
        moved |= self._admission.reload(fresh)
        self._driver.filter.most_claims = fresh.quotas.claims
        self._monitor.slow_poll, self._monitor.without_shim = fresh.mode == "observe", fresh.without_shim
        leaving = [JobLeft(job) for job in self._agent.jobs if not self._admission.wants(job)]
        new = [job for job in self._monitor.jobs if job in moved or job not in self._agent.jobs]
        joining = [job for job in new if self._admission.wants(job)]
        introduced = [event for job in joining for event in self._monitor.introduce(job)]
        self._job_log.note(introduced, self._admission.wants)
        for event in leaving:
            _log.info("job no longer paced", extra=log_fields(event.job))
        self._driver.take(*self._admission.passed([*leaving, *introduced], self._clock.own_ns()))
        self._arm()
        _log.info("%s with %s from now on", fresh.mode, self._enforcer.backend.name)

    def _rewire(self, fresh: HostConfig) -> set[str]:
        """Addresses and paths from now on."""
        self._host_of.become(fresh.host_of)
        if self._link is not None:
            self._link.knows(fresh.topology)
        return rewire(self._agent, fresh.topology)

    def _renew_certificates(self) -> None:
        """Read again at every reload: the files may be others under the same names."""
        tls = self.config.tls
        if tls is None:
            return
        found = require_valid(tls, self.config.name)
        for name, expires_s in (("own", found.expires_s), ("ca", found.ca_expires_s)):
            self._instruments.certificate_expiry.labels(name).set(expires_s)
        if self._link is not None:
            self._link.renew(tls)

    def alive(self) -> bool:
        late_ns = self._clock.own_ns() - min(self._beat_ns, self._monitor.due_ns)
        return late_ns < ALIVE_SLOTS * self._slots.length_ns

    # ---- Whatever is due ----

    def _expired(self) -> None:
        try:
            self._do_what_is_due()
            self._arm()
        except Exception as error:
            if not self._fault.done():
                self._fault.set_result(error)

    def _heard(self, event: SwitchSays) -> None:
        """From the switch. Limits first, where a link may lie idle; then what is due, or nearly: hostd is awake."""
        self._driver.take(event)
        self._do_what_is_due()
        self._arm()

    def _do_what_is_due(self) -> None:
        now_ns = self._clock.now_ns()
        slot = self._slots.index(now_ns)
        if begun := slot != self._beaten_slot:
            # First of all: a hostd that slept too long has no lease any more, and must set nothing before it knows.
            self._beaten_slot, self._beat_ns = slot, self._clock.own_ns()
            self._enforcer.beat()
        events: list[HostEvent] = []
        ticks = (deadline_ns := self._driver.deadline_ns) is not None and now_ns >= deadline_ns
        counts = self._agent.counts(now_ns) if ticks else ()
        if self._monitor.is_due(own_ns := self._clock.own_ns()) or counts:
            events = self._monitor.poll(own_ns, counts)
            self._job_log.note(events, self._admission.wants)
        if self.config.mode != "observe":
            events = self._admission.passed(events, own_ns)
            if ticks:
                events.append(Tick())
            elif begun:
                events += self._driver.foreign_news()
            if events:
                self._driver.take(*events)
        if begun:
            self._driver.judge(slot)
            self._throughput.sample(moving(self._monitor.jobs))
            self._timeline.note(slot, self._throughput.rates_bps)
        if own_ns - self._losses_ns >= LOSSES_NS:
            self._losses_ns = own_ns
            self._enforcer.watch_losses(self._monitor.last_read())

    def _arm(self) -> None:
        """For the next look or the agent's deadline. A slot in which neither falls has no beat, the next one has. For
        losses nobody wakes: what tells of them is read by looks."""
        now_ns, own_ns = self._clock.now_ns(), self._clock.own_ns()
        delay_ns = min(self._monitor.due_ns - own_ns, self._slots.start_ns(self._beaten_slot + 2) - now_ns)
        if self._driver.deadline_ns is not None:
            delay_ns = min(delay_ns, self._driver.deadline_ns - now_ns)
        self._timer.set(delay_ns)

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            self._enforcer.refresh()
            waiting = self._admission.waiting(self._monitor.jobs, self._clock.own_ns())
            for job in dict.fromkeys((*waiting, *self._admission.otherwise())):
                if job in self._monitor.jobs:
                    self._tell(self._monitor.introduce(job))
            view = self.view()
            unpaced = self._unpaced_log.note(view)
            if self.config.metrics is not None:
                self._metrics.update(view, unpaced)
            if self._link is not None:
                self._link.tell(host_state(view, unpaced))

    async def _keep_history(self) -> None:
        """In a thread: a disk that hangs holds up nothing else."""
        history = History(state_directory(self.config.state_directory))
        while history.is_kept:
            since_ns = self._clock.own_ns()
            await asyncio.sleep(HISTORY_S)
            minutes = minutes_of(self.view(), int(time.time()), since_ns)
            await asyncio.to_thread(history.write, minutes)

    # ---- What happens ----

    def _tell(self, events: list[HostEvent]) -> None:
        """The agent, what it may hear."""
        if passed := self._admission.passed(events, self._clock.own_ns()):
            self._driver.take(*passed)
            self._arm()

    def _sockets_changed(self, flow: FlowId, sockets: tuple[DataSocket, ...]) -> None:
        if flow in self._agent.flows:
            self._enforcer.attach(flow, sockets)

    # ---- For people ----

    def view(self) -> HostView:
        config = self.config
        return HostView(
            name=config.name,
            mode=config.mode,
            policy=config.policy,
            now_ns=self._clock.now_ns(),
            topology=config.topology,
            agent=self._agent,
            enforcer=self._enforcer,
            switch=self._link.view() if self._link is not None else SwitchView(config.switch_name),
            jobs=self._monitor.jobs,
            invisible=self._monitor.invisible,
            throughput=self._throughput,
            decisions=self._driver.durations,
            missed_slots=self._driver.missed_slots,
            control_refused=self._control.refused,
            own_ns=self._clock.own_ns(),
            host_of=config.host_of,
            listed=config.jobs,
            namespace=self._namespace,
            released=self._admission.released,
            registrations_refused=self._registrations.refused,
            users=self._users,
            over_quota=self._admission.quotas.refused,
            bad_numbers=self._admission.expelled,
            bad_readings=self._monitor.bad_readings,
            held_back=self._driver.filter.held_back,
        )

    def _profiles(self, arguments: dict[str, object]) -> dict[str, object]:
        since_s = arguments.get("since_s")
        if isinstance(since_s, int | float) and 0 < since_s < self._clock.own_ns() / 1e9:
            return profiles(self.view(), since_s)
        return profiles(self.view())

    def _release(self, arguments: dict[str, object], peer: Peer) -> dict[str, object]:
        """Every limit on this host, or those of one job."""
        text = arguments.get("job")
        by = f"by {peer}, {datetime.now(UTC).isoformat(timespec='seconds')}"
        if text is None:
            self._admission.released[None] = by
            problems = self._enforcer.release()
            return {"released": not problems, "problems": problems}
        names = self.view().names
        jobs = names.meant(str(text))
        if len(jobs) > 1:
            return {"error": several(names, str(text), jobs)}
        if not jobs:
            return {"error": f"no job {str(text)[:60]!r} on this host; there are: {names.every()}"}
        [job] = jobs
        self._admission.released[job] = by
        if job in self._agent.jobs:
            self._tell([JobLeft(job)])
            _log.info("job no longer paced", extra=log_fields(job))
        left = self._enforcer.errors.lately(job, 1.0).get(ErrorKind.RESTORE)
        shown = names.shown(job)
        return {"released": left is None, "problems": {shown: left} if left else {}, "job": shown}

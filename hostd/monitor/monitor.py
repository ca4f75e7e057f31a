"""What the jobs of this host do: counters in shared memory and in the kernel, turned into events.

Looking must cost next to nothing, and waking up to look costs more than looking. So every job has a time
at which it is looked at next, on a grid that makes their times coincide:

    learning     LOOK_NS from now, or a thousandth of the time since it was first seen, up to LONGEST_LEARNING_NS
    computing    at SOONEST of the shortest compute phase seen lately; from then on, LOOK_NS from now where phases have
                 ended lately, and later the further from those (poll_schedule.py)
    sending      after half the time it needs for the rest at its speed, and at what it may send when that has become
                 more: hardly ever in the middle of a burst, often at its end, where hand-over depends on
                 it; all sending jobs together every COUNTERS_NS, and with every report
    between      (bursts of one iteration) as computing, but for twice LOOK_NS; so often, too, while it sends, where its
                 rests are news: its counters, and its sockets while it has a share that other jobs could have
    left to TCP  LEFT_TO_TCP_NS from now
    receiving    (it has sent everything, and its iteration has not ended) after RECEIVING_NS, later less often
    slow poll    SLOW_POLL_NS from now in any state while no decision depends on it (observe mode, or nobody competes
                 with the job and its bursts announce themselves), but for the first seconds, and some every few
                 minutes: what a job does in between is learned there

Where hostd is awake anyway, for a report or an answer of the switch, it looks at what is due within half of LOOK_NS.

A look reads one value per process: has it had an event since? If so, its counters are read and what its sockets have
sent. Those are read for decisions, too, but not again within FRESH_NS: an answer mostly comes sooner than that after
the report, and the policy does not look closer (policy.paceline.FINEST_NS); nor those of a job that is held, until it
can have sent something to speak of. Once a second: new and dead processes, new and closed sockets; sooner where a
process has registered or a file has come, and those of a job that has not joined yet.

A job without the shim (jobs_without_shim.py) has no counters, so a look at it is its sockets: where its bursts begin
and end is told from what they moved (paceline/flowcore/detect/bursts.py), and before those have a rhythm it has no
events.
"""

import logging
import os
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hostd.kernel.calls import PATIENT_S, Call, Held, NotAnswered, counter_calls, performed_ahead
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from hostd.monitor.given_up import GivenUp
from hostd.monitor.job_tracker import JobTracker
from hostd.monitor.jobs_without_shim import JobWithoutShim, processes_of
from hostd.monitor.look_budget import LookBudget
from hostd.monitor.poll_schedule import EARLY, is_sampled
from hostd.monitor.process_identity import ProcessIdentity, identity_of
from hostd.monitor.segment_access import SegmentAccess
from hostd.monitor.users import Users
from hostd.registration.registrations import Ended, Registrations
from nccl_shim.segment.liveness import owner_of
from nccl_shim.segment.python_writer import make_directory
from nccl_shim.segment.reader import ProcessView, Reader
from nccl_shim.segment.segment_memory import SegmentMemory
from nccl_shim.segment.snapshot import NotASegment
from paceline.flowcore.messages.events import HostEvent, Limit, Progress
from paceline.flowcore.model.fields import printable
from paceline.flowcore.model.patterns import FlowId

_log = logging.getLogger(__name__)

FRESH_NS = 20_000_000
SLOW_POLL_NS = 50_000_000  # a shorter iteration is counted together with the next
HOUSEKEEPING_NS = 1_000_000_000
IDLE_NS = 100_000_000  # without jobs: so late may a first one be noticed
SEARCH_NS = 5_000_000_000  # for processes of jobs without the shim
LEARNING_LOOK_NS = 100_000_000  # a job that has not joined yet may be opening its connections,
LEARNING_LOOKS = 100  # ... less and less likely: so often in as long as it has been learned,
SOCKET_NS = 50_000  # between two looks at a job, for each of its sockets: reading one takes a tenth of it
NEW_FILES_S = 0.002  # of a poll: every user can put files there
RECENTLY_CHANGED_NS = 2_000_000_000  # ... if it has done anything lately


class Monitor:
    """`poll` often; it says what happened. `on_sockets` hears when a joined flow's sockets changed."""

    def __init__(
        self,
        host: str,
        host_of: Mapping[str, str],
        nic_bps: float,
        directory: Path | None,
        on_sockets: Callable[[FlowId, tuple[DataSocket, ...]], None],
        without_shim: Sequence[JobWithoutShim] = (),
        registrations: Registrations | None = None,
        users: Users | None = None,
    ) -> None:
        self.jobs: dict[str, JobTracker] = {}
        self._given_up = GivenUp(self.jobs)
        self.budget = LookBudget()
        self.users = users or Users()
        self.without_shim = without_shim
        self.slow_poll = False  # no decision depends on what is seen ...
        self.is_left_alone: Callable[[str], bool] = lambda _: False  # ... or on what is seen of this job
        self.invisible: dict[str, str] = {}  # why a process is not seen, by file or pid
        self._host, self._host_of, self._nic_bps = host, host_of, nic_bps
        self._reader = Reader(directory, SegmentAccess().open, budget_s=NEW_FILES_S)
        with suppress(OSError):  # its owner may remove the files of dead processes of every user
            make_directory(self._reader.directory)
        self._registrations = registrations
        self._said_files = False
        self._on_sockets = on_sockets
        self._housekeeping_ns = self._asked_ns = 0
        self._found: dict[str, dict[int, ProcessIdentity | None]] = {}  # processes of jobs without the shim ...
        self._searched_ns: int | None = None  # ... as they were then

    @property
    def due_ns(self) -> int:
        """When to poll next."""
        return min([self._housekeeping_ns, *[job.due_ns for job in self.jobs.values()]])  # a list: half the time

    def is_due(self, now_ns: int) -> bool:
        """Or nearly: looking now saves a wake-up, which costs more."""
        return self.due_ns <= now_ns + self._early_ns

    @property
    def _early_ns(self) -> int:
        return self.budget.look_ns // EARLY

    @property
    def bad_readings(self) -> int:
        """Of counters with numbers that cannot be, so far."""
        return self._reader.bad_numbers

    def poll(self, now_ns: int, counting: Collection[str] = ()) -> list[HostEvent]:
        """`counting`: `progress` of these jobs comes next, and what it would read is read with the rest."""
        self.budget.update(now_ns)
        if counting:  # as often as reports and hand-overs, and no oftener: no look
            return [*self._poll(now_ns, counting), *self._given_up.left()]
        with self.budget.spending():
            return [*self._poll(now_ns, counting), *self._given_up.left()]

    def _poll(self, now_ns: int, counting: Collection[str]) -> list[HostEvent]:
        until_ns = now_ns + self._early_ns
        if until_ns >= self._housekeeping_ns or (now_ns - self._asked_ns >= IDLE_NS and self._has_news(now_ns)):
            self._asked_ns, self._housekeeping_ns = now_ns, now_ns + (HOUSEKEEPING_NS if self.jobs else IDLE_NS)
            return self._read_all(now_ns)
        counted = [(name, self.jobs[name]) for name in counting if name in self.jobs]
        asked = {name: job for name, job in counted if job.demand.live and _is_old(job, now_ns)}
        due = {name: job for name, job in self.jobs.items() if job.due_ns <= until_ns} | asked
        to_read = asked | {
            name: job
            for name, job in due.items()
            if job.rhythm is not None or not job.is_quiet(until_ns) or self._look_is_due(job, now_ns)
        }
        of_process: dict[int | None, JobTracker] = {pid: job for job in due.values() for pid in job.processes}
        for view in self._reader.poll_changed(of_process):
            job = of_process[view.host_pid]
            if self.users.job(view.uid, view.snapshot.job) == job.demand.job:
                job.counted(view, now_ns)
                to_read[job.demand.job] = job
        with performed_ahead(_reading(to_read.values())):
            events: list[HostEvent] = []
            for job in to_read.values():
                with self._given_up.on_a_fault(job):
                    self._look_if_due(job, now_ns)
                    events += job.read(now_ns)
        for job in due.values():
            if job.demand.job not in self._given_up:
                job.polled_ns = now_ns
                self._schedule(job, now_ns)
        return events

    def progress(self, now_ns: int, jobs: Container[str]) -> Progress:
        """What the live flows of these jobs have sent in their iteration, unless it was told a moment ago."""
        moved: list[tuple[FlowId, float]] = []
        idle: list[FlowId] = []
        live = [job for name, job in self.jobs.items() if job.demand.live and name in jobs]
        old = [job for job in live if _is_old(job, now_ns)]
        self._count_anew({pid: job for job in old if not job.has_sockets for pid in job.processes}, now_ns)
        with performed_ahead(_reading(old)):
            for job in old:
                with self._given_up.on_a_fault(job):
                    job.measure(now_ns)
                self._schedule(job, now_ns)
        for job in live:
            if job.facts is not None and job.told_ns < job.measured_ns:
                job.told_ns = job.measured_ns
                with self._given_up.on_a_fault(job):
                    moved += job.demand.progress(job.facts)
                    idle += job.demand.idle(job.facts)
        return Progress(tuple(moved), tuple(idle))

    def _count_anew(self, of_process: Mapping[int | None, JobTracker], now_ns: int) -> None:
        """Of jobs without sockets, all that says how much they have sent."""
        for view in self._reader.poll_changed(of_process) if of_process else ():
            of_process[view.host_pid].counted(view, now_ns)

    def limited(self, limits: Iterable[Limit], now_ns: int) -> None:
        """Flows have other rates: what those that may send more sent so far says nothing about what they will."""
        let_go: dict[str, JobTracker] = {}
        for limit in limits:
            job = self.jobs.get(limit.flow.job)
            if job is not None and job.limited(limit, now_ns) and job.demand.live:
                let_go[limit.flow.job] = job
        for job in let_go.values():
            self._schedule(job, now_ns, let_go=True)

    def sockets_of(self, flow: FlowId) -> tuple[DataSocket, ...]:
        job = self.jobs.get(flow.job)
        return job.data_sockets.get((flow.role, flow.target), ()) if job else ()

    def processes_of(self, name: str) -> Iterable[int]:
        return self.jobs[name].processes if name in self.jobs else ()

    def has_sockets(self, name: str) -> bool:
        return name in self.jobs and self.jobs[name].has_sockets

    def peers_of(self, name: str, target: str) -> frozenset[tuple[int, str]]:
        return self.jobs[name].counted_peers(target) if name in self.jobs else frozenset()

    def is_live(self, name: str) -> bool:
        return name in self.jobs and bool(self.jobs[name].demand.live)

    def last_read(self) -> dict[int, TcpCounters]:
        """Of the sockets that send, by cookie. What has not been read lately has not moved."""
        return {cookie: one for job in self.jobs.values() for cookie, one in job.sockets.last_read.items()}

    def connections(self) -> set[int]:
        """Of all jobs, also of those that are left to TCP, and wherever they lead, by cookie."""
        processes = [process.sockets for job in self.jobs.values() for process in job.processes.values()]
        return {one.cookie for sockets in processes for one in (*sockets.sockets, *sockets.receiving)}

    def introduce(self, name: str) -> list[HostEvent]:
        """The job's events, for a listener that has missed them so far."""
        job = self.jobs[name]
        return job.demand.introduce(job.facts) if job.facts is not None else []

    def close(self) -> None:
        self._reader.close()

    def _look_if_due(self, job: JobTracker, now_ns: int) -> None:
        if self._look_is_due(job, now_ns) or (not job.demand.sizes and job.has_ended_iteration()):
            self._look(job, now_ns)

    def _look_is_due(self, job: JobTracker, now_ns: int) -> bool:
        if job.demand.sizes or now_ns - job.changed_ns >= RECENTLY_CHANGED_NS:
            return False
        return now_ns - job.looked_ns >= max(LEARNING_LOOK_NS, (now_ns - job.seen_ns) // LEARNING_LOOKS)

    def _schedule(self, job: JobTracker, now_ns: int, let_go: bool = False) -> None:
        seldom = self.slow_poll or (job.announces and self.is_left_alone(job.demand.job))
        job.is_looked_at_closely = not seldom or is_sampled(now_ns - job.seen_ns, job.timing.is_known)
        if not job.is_looked_at_closely:
            job.due_ns = now_ns + SLOW_POLL_NS
            return
        with self._given_up.on_a_fault(job):
            job.schedule(now_ns, self._nic_bps, let_go, self.budget.look_ns)
            job.due_ns = max(job.due_ns, now_ns + _least_ns(job))

    def _look(self, job: JobTracker, now_ns: int) -> None:
        """Which sockets the job has now."""
        for flow in job.look(now_ns, self._host_of, self._host):
            self._on_sockets(flow, self.sockets_of(flow))
        for pid, process in job.processes.items():
            if process.sockets.refused:
                self.invisible[str(pid)] = process.sockets.refused

    # ---- Once a second ----

    def _has_news(self, now_ns: int) -> bool:
        """Whether processes came or went. Files that are none of a job, however many, are no news."""
        self._asked_ns = now_ns
        if self._registrations is not None and self._registrations.pending():
            return True
        return self._reader.stale() and self._reader.follow()

    def _follow(self, registrations: Registrations) -> None:
        """What processes have registered, and which have ended."""
        for one in registrations.receive():
            if isinstance(one, Ended):
                self._reader.forget(one.name)
            elif one.name in self._reader:  # it has registered again
                os.close(one.memory)
            else:
                try:
                    self._reader.admit(one.name, SegmentMemory(one.memory, one.pid, one.started, one.uid))
                except (NotASegment, OSError) as error:
                    registrations.refuse(one, printable(str(error)))
        if registrations.listens and not self._said_files and (files := self._reader.files):
            self._said_files = True
            _log.warning(
                "job %s has its counters in a file in %s, which the next release does not read: with PACELINE_SOCKET=%s"
                " they are registered",
                printable(files[0]),
                self._reader.directory,
                registrations.path,
            )

    def _read_all(self, now_ns: int) -> list[HostEvent]:
        with_shim = self._seen_through_shim()
        present = self._seen_through_sockets(now_ns, with_shim) | with_shim
        self.invisible |= self._given_up.without(present)
        events: list[HostEvent] = []
        for name in [name for name in self.jobs if name not in present]:
            events += self.jobs.pop(name).demand.left()
        for name, processes in present.items():
            if name in self._given_up:
                continue
            if name not in self.jobs:
                self.jobs[name] = JobTracker(name, self._host, now_ns, self._nic_bps)
            self.jobs[name].consists_of(processes)
        with performed_ahead([call for job in self.jobs.values() for call in job.calls_of_look()], PATIENT_S):
            for job in [*self.jobs.values()]:
                with self._given_up.on_a_fault(job):
                    self._look(job, now_ns)
                    events += job.read(now_ns)
                    self._schedule(job, now_ns)
        return events

    def _seen_through_shim(self) -> dict[str, dict[int, ProcessView | None]]:
        """Any user may give a job any name: it is that user's job, whatever jobs other users have."""
        self.users.read()
        if self._registrations is not None:
            self._follow(self._registrations)
        views = self._reader.poll()
        if not all(view.alive for view in views):
            self._reader.reap()
        # Any user may choose a file's name.
        self.invisible = {printable(name): printable(why) for name, why in self._reader.refused.items()}
        if self._registrations is not None:
            self.invisible |= self._registrations.named()
        found: dict[str, dict[int, ProcessView | None]] = {}
        of_process: dict[int, str] = {}  # a process is of the job that it named first
        for view in sorted(views, key=lambda view: view.snapshot.created_ns):
            if not view.alive or view.snapshot.finished or view.host_pid is None:
                continue
            if of_process.setdefault(view.host_pid, view.snapshot.job) != view.snapshot.job:
                self.invisible[f"{view.host_pid} as {view.snapshot.job}"] = f"is of job {of_process[view.host_pid]}"
            elif (owner := owner_of(view.host_pid)) in (None, view.uid):
                found.setdefault(self.users.job(view.uid, view.snapshot.job), {})[view.host_pid] = view
            else:  # process_identity.py
                self.invisible[str(view.host_pid)] = f"was of uid {view.uid}, and is of uid {owner} since an exec"
        return found

    def _seen_through_sockets(
        self, now_ns: int, with_shim: Mapping[str, Mapping[int, object]]
    ) -> dict[str, dict[int, ProcessView | None]]:
        """The processes that the list of jobs without the shim names, each in a job of its user."""
        if not self.without_shim:
            return {}
        if self._searched_ns is None or now_ns - self._searched_ns >= SEARCH_NS:
            try:
                found = processes_of(self.without_shim, {pid for job in with_shim.values() for pid in job})
                self._found = {name: {pid: identity_of(pid) for pid in pids} for name, pids in found.items()}
                self._searched_ns = now_ns
            except NotAnswered as error:  # by a look in a second
                if isinstance(error, Held):
                    self.invisible["jobs without the shim"] = str(error)
        listed = {one.job for one in self.without_shim}
        present: dict[str, dict[int, ProcessView | None]] = {}
        for name in self._found.keys() & listed:
            for pid, before in self._found[name].items():
                if before is not None and identity_of(pid) == before:
                    present.setdefault(self.users.job(before.uid, name), {})[pid] = None
        return present


def _reading(jobs: Iterable[JobTracker]) -> list[Call]:
    return [call for job in jobs for them in job.sockets.sending.values() for call in counter_calls(them)]


def _is_old(job: JobTracker, now_ns: int) -> bool:
    """What was last read of its sockets, and reading them again may tell something new."""
    return now_ns >= job.measured_ns + max(FRESH_NS, _least_ns(job)) and not job.is_held(now_ns)


def _least_ns(job: JobTracker) -> int:
    """Between two looks at it."""
    return SOCKET_NS * len(job.sockets.connections)
